// smex::gat_attention: graph attention in one pass, its weights computed again for the gradient.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <string>

#include "kernels/attention/steps.h"
#include "kernels/gat/operator.h"
#include "kernels/message/dispatch.h"
#include "kernels/message/operands.h"
#include "kernels/operator_of.h"

namespace smex::kernels {

void check_gat(at::TensorList in_edges, const at::Tensor& left, const at::Tensor& right,
               const at::Tensor& value) {
  check_edges(kGat, in_edges);
  TORCH_CHECK_VALUE(value.dim() == 3, kGat, ": expected values [sources, heads, features], found ",
                    value.sym_sizes());
  TORCH_CHECK_VALUE(left.dim() == 2 && left.sym_size(0) == value.sym_size(0) &&
                        left.sym_size(1) == value.sym_size(1),
                    kGat, ": expected left scores [sources, heads] for values ", value.sym_sizes(),
                    ", found ", left.sym_sizes());
  TORCH_CHECK_VALUE(right.dim() == 2 && right.sym_size(0) == in_edges[0].sym_size(0) - 1 &&
                        right.sym_size(1) == value.sym_size(1),
                    kGat, ": expected right scores [", in_edges[0].sym_size(0) - 1, ", ",
                    value.sym_size(1), "], found ", right.sym_sizes());
  for (const at::Tensor& x : {left, right, value}) {
    TORCH_CHECK_TYPE(x.is_floating_point() && x.scalar_type() == value.scalar_type(), kGat,
                     ": expected scores and values of one floating-point type, found ",
                     value.scalar_type(), " and ", x.scalar_type());
    TORCH_CHECK_VALUE(x.device() == in_edges[0].device(), kGat, ": scores or values are on ",
                      x.device(), ", the graph on ", in_edges[0].device());
  }
}

void check_gat_part(const char* name, at::TensorList edges, const at::Tensor& left,
                    const at::Tensor& right, const at::Tensor& value, const at::Tensor& log_sum,
                    const at::Tensor& change, const at::Tensor& grad) {
  check_edges(name, edges);
  TORCH_CHECK_VALUE(value.dim() == 3 && grad.dim() == 3, name,
                    ": expected values and gradients [nodes, heads, features], found ",
                    value.sym_sizes(), " and ", grad.sym_sizes());
  TORCH_CHECK_VALUE(left.sym_sizes() == value.sym_sizes().slice(0, 2), name,
                    ": expected left scores [sources, heads] for values ", value.sym_sizes(),
                    ", found ", left.sym_sizes());
  for (const at::Tensor& x : {right, log_sum, change}) {
    TORCH_CHECK_VALUE(x.sym_sizes() == grad.sym_sizes().slice(0, 2), name,
                      ": expected numbers [destinations, heads] for gradients ", grad.sym_sizes(),
                      ", found ", x.sym_sizes());
  }
  TORCH_CHECK_VALUE(value.sym_sizes().slice(1) == grad.sym_sizes().slice(1), name,
                    ": expected gradients of the values' heads and features, found ",
                    grad.sym_sizes(), " for values ", value.sym_sizes());
  const at::Tensor& row = name == std::string(kGatBySource) ? left : right;
  TORCH_CHECK_VALUE(row.sym_size(0) == edges[0].sym_size(0) - 1, name, ": expected ",
                    edges[0].sym_size(0) - 1, " rows, found ", row.sym_size(0));
}

at::Tensor gat_by_steps(at::TensorList in_edges, at::TensorList out_edges, const at::Tensor& left,
                        const at::Tensor& right, const at::Tensor& value, double slope) {
  const std::string leaky = to_string(
      call(MessageOp::kLeakyRelu,
           call(MessageOp::kAdd, operand(Target::kSource, 0), operand(Target::kDestination, 1)),
           constant(slope)));
  return attention_by_steps(in_edges, out_edges, leaky, {left, right}, value);
}

namespace {

Two gat_meta(at::TensorList in_edges, at::TensorList, const at::Tensor& left,
             const at::Tensor& right, const at::Tensor& value, double) {
  check_gat(in_edges, left, right, value);
  const auto rows = in_edges[0].sym_size(0) - 1;
  return {at::empty_symint({rows, value.sym_size(1), value.sym_size(2)}, value.options()),
          at::empty_symint({rows, value.sym_size(1)},
                           value.options().dtype(sum_type(value.scalar_type())))};
}

Three gat_backward_meta(at::TensorList, at::TensorList, const at::Tensor& left,
                        const at::Tensor& right, const at::Tensor& value, const at::Tensor&,
                        const at::Tensor&, const at::Tensor&, double) {
  constexpr auto kContiguous = at::MemoryFormat::Contiguous;
  return {at::empty_like(left, kContiguous), at::empty_like(right, kContiguous),
          at::empty_like(value, kContiguous)};
}

Two gat_by_source_meta(at::TensorList out_edges, const at::Tensor& left, const at::Tensor& right,
                       const at::Tensor& value, const at::Tensor& log_sum, const at::Tensor& change,
                       const at::Tensor& grad, double) {
  check_gat_part(kGatBySource, out_edges, left, right, value, log_sum, change, grad);
  return {at::empty_symint(left.sym_sizes(), left.options()),
          at::empty_symint(value.sym_sizes(), value.options())};
}

at::Tensor gat_by_destination_meta(at::TensorList in_edges, const at::Tensor& left,
                                   const at::Tensor& right, const at::Tensor& value,
                                   const at::Tensor& log_sum, const at::Tensor& change,
                                   const at::Tensor& grad, double) {
  check_gat_part(kGatByDestination, in_edges, left, right, value, log_sum, change, grad);
  return at::empty_symint(right.sym_sizes(), right.options());
}

}  // namespace

Two call_gat(at::TensorList in_edges, at::TensorList out_edges, const at::Tensor& left,
             const at::Tensor& right, const at::Tensor& value, double slope) {
  static const auto op = operator_of<decltype(gat_meta)>(kGat);
  return op.call(in_edges, out_edges, left, right, value, slope);
}

Three call_gat_backward(at::TensorList in_edges, at::TensorList out_edges, const at::Tensor& left,
                        const at::Tensor& right, const at::Tensor& value, const at::Tensor& out,
                        const at::Tensor& log_sum, const at::Tensor& grad, double slope) {
  static const auto op = operator_of<decltype(gat_backward_meta)>("smex::gat_attention_backward");
  return op.call(in_edges, out_edges, left, right, value, out, log_sum, grad, slope);
}

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "gat_attention(Tensor[] in_edges, Tensor[] out_edges, Tensor left, Tensor right, "
      "Tensor value, float slope) -> (Tensor, Tensor)");
  m.def(
      "gat_attention_backward(Tensor[] in_edges, Tensor[] out_edges, Tensor left, Tensor right, "
      "Tensor value, Tensor out, Tensor log_sum, Tensor grad, float slope) -> "
      "(Tensor, Tensor, Tensor)");
  m.def(
      "gat_gradient_by_source(Tensor[] out_edges, Tensor left, Tensor right, Tensor value, "
      "Tensor log_sum, Tensor change, Tensor grad, float slope) -> (Tensor, Tensor)");
  m.def(
      "gat_gradient_by_destination(Tensor[] in_edges, Tensor left, Tensor right, Tensor value, "
      "Tensor log_sum, Tensor change, Tensor grad, float slope) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("gat_attention", gat_meta);
  m.impl("gat_attention_backward", gat_backward_meta);
  m.impl("gat_gradient_by_source", gat_by_source_meta);
  m.impl("gat_gradient_by_destination", gat_by_destination_meta);
}

}  // namespace smex::kernels
