#include <torch/library.h>

#include "kernels/message/autocast.h"
#include "kernels/typed/operator.h"

namespace smex::kernels {
namespace {

Factor lowered(const Factor& factor, at::DeviceType device) {
  return factor ? Factor(lower({*factor}, device)[0]) : std::nullopt;
}

at::Tensor typed_spmm_lowered(at::TensorList in_edges, at::TensorList out_edges,
                              const at::Tensor& x, const at::Tensor& weight,
                              const at::Tensor& types, const Factor& factor) {
  const BelowAutocast guard;
  const at::DeviceType device = device_of(in_edges);
  const std::vector<at::Tensor> operands = lower({x, weight}, device);
  return call_typed_spmm(in_edges, out_edges, operands[0], operands[1], types,
                         lowered(factor, device));
}

at::Tensor typed_sddmm_lowered(at::TensorList in_edges, at::TensorList out_edges,
                               const at::Tensor& x, const at::Tensor& weight, const at::Tensor& y,
                               const at::Tensor& types) {
  const BelowAutocast guard;
  const std::vector<at::Tensor> operands = lower({x, weight, y}, device_of(in_edges));
  return call_typed_sddmm(in_edges, out_edges, operands[0], operands[1], operands[2], types);
}

at::Tensor typed_outer_lowered(at::TensorList in_edges, at::TensorList out_edges,
                               const at::Tensor& x, const at::Tensor& y, const at::Tensor& types,
                               const Factor& factor, c10::SymInt num_types) {
  const BelowAutocast guard;
  const at::DeviceType device = device_of(in_edges);
  const std::vector<at::Tensor> operands = lower({x, y}, device);
  return call_typed_outer(in_edges, out_edges, operands[0], operands[1], types,
                          lowered(factor, device), num_types);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, AutocastCPU, m) {
  m.impl("typed_spmm", typed_spmm_lowered);
  m.impl("typed_sddmm", typed_sddmm_lowered);
  m.impl("typed_outer", typed_outer_lowered);
}

TORCH_LIBRARY_IMPL(smex, AutocastCUDA, m) {
  m.impl("typed_spmm", typed_spmm_lowered);
  m.impl("typed_sddmm", typed_sddmm_lowered);
  m.impl("typed_outer", typed_outer_lowered);
}

}  // namespace smex::kernels
