// What autocast makes of the operators on messages: features in the lower precision, as matrix
// products are (sums are kept in float32 by the kernels); the softmax of edges in float32, as
// torch's softmax is.
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <tuple>

namespace smex::kernels {
namespace {

template <typename Type>
auto operator_of(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Type>();
}

c10::DispatchKeySet autocast_keys() {
  return c10::DispatchKeySet({c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA});
}

std::vector<at::Tensor> lower(at::TensorList tensors, at::DeviceType device) {
  const at::ScalarType type = at::autocast::get_autocast_dtype(device);
  std::vector<at::Tensor> result;
  for (const at::Tensor& x : tensors) result.push_back(at::autocast::cached_cast(type, x, device));
  return result;
}

at::DeviceType device_of(at::TensorList edges) {
  TORCH_CHECK_VALUE(!edges.empty(),
                    "smex: expected edges as [indptr, indices] or [indptr, indices, "
                    "eids], found an empty list");
  return edges[0].device().type();
}

at::Tensor spmm(at::TensorList in_edges, at::TensorList out_edges, c10::string_view message,
                c10::string_view reduce, at::TensorList operands) {
  static const auto op = operator_of<decltype(spmm)>("smex::spmm");
  const c10::impl::ExcludeDispatchKeyGuard guard(autocast_keys());
  return op.call(in_edges, out_edges, message, reduce, lower(operands, device_of(in_edges)));
}

std::tuple<at::Tensor, at::Tensor> spmm_extremum(at::TensorList in_edges, at::TensorList out_edges,
                                                 c10::string_view message, c10::string_view reduce,
                                                 at::TensorList operands, bool zero_empty,
                                                 bool need_winner) {
  static const auto op = operator_of<decltype(spmm_extremum)>("smex::spmm_extremum");
  const c10::impl::ExcludeDispatchKeyGuard guard(autocast_keys());
  return op.call(in_edges, out_edges, message, reduce, lower(operands, device_of(in_edges)),
                 zero_empty, need_winner);
}

at::Tensor sddmm(at::TensorList in_edges, at::TensorList out_edges, c10::string_view message,
                 at::TensorList operands, at::OptionalIntArrayRef reduce_to) {
  static const auto op = operator_of<decltype(sddmm)>("smex::sddmm");
  const c10::impl::ExcludeDispatchKeyGuard guard(autocast_keys());
  return op.call(in_edges, out_edges, message, lower(operands, device_of(in_edges)), reduce_to);
}

at::Tensor edge_softmax(at::TensorList edges, const at::Tensor& score) {
  static const auto op = operator_of<decltype(edge_softmax)>("smex::edge_softmax");
  const c10::impl::ExcludeDispatchKeyGuard guard(autocast_keys());
  return op.call(edges, at::autocast::cached_cast(at::kFloat, score, device_of(edges)));
}

std::tuple<at::Tensor, at::Tensor> gat_attention(at::TensorList in_edges, at::TensorList out_edges,
                                                 const at::Tensor& left, const at::Tensor& right,
                                                 const at::Tensor& value, double slope) {
  static const auto op = operator_of<decltype(gat_attention)>("smex::gat_attention");
  const c10::impl::ExcludeDispatchKeyGuard guard(autocast_keys());
  const std::vector<at::Tensor> x = lower({left, right, value}, device_of(in_edges));
  return op.call(in_edges, out_edges, x[0], x[1], x[2], slope);
}

at::Tensor attention(at::TensorList in_edges, at::TensorList out_edges, c10::string_view score,
                     at::TensorList operands, const at::Tensor& value) {
  static const auto op = operator_of<decltype(attention)>("smex::attention");
  const c10::impl::ExcludeDispatchKeyGuard guard(autocast_keys());
  const at::DeviceType device = device_of(in_edges);
  return op.call(in_edges, out_edges, score, lower(operands, device), lower({value}, device)[0]);
}

void register_all(torch::Library& m) {
  m.impl("spmm", spmm);
  m.impl("spmm_extremum", spmm_extremum);
  m.impl("sddmm", sddmm);
  m.impl("edge_softmax", edge_softmax);
  m.impl("gat_attention", gat_attention);
  m.impl("attention", attention);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, AutocastCPU, m) { register_all(m); }
TORCH_LIBRARY_IMPL(smex, AutocastCUDA, m) { register_all(m); }

}  // namespace smex::kernels
