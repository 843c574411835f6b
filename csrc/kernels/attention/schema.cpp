// smex::attention: softmax of a formula's values over in-edges, times the sources' values, in one
// pass; the weights are computed again for the gradient.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "kernels/attention/operator.h"
#include "kernels/message/operands.h"
#include "kernels/operator_of.h"

namespace smex::kernels {

void check_attention(at::TensorList in_edges, at::TensorList out_edges, const Message& score,
                     at::TensorList operands, const at::Tensor& value) {
  check_operands(kAttention, score, in_edges, out_edges, operands);
  TORCH_CHECK_VALUE(value.dim() == 3, kAttention,
                    ": expected values [sources, heads, features], found ", value.sym_sizes());
  TORCH_CHECK_TYPE(value.scalar_type() == operands[0].scalar_type(), kAttention,
                   ": expected operands and values of one type, found ", operands[0].scalar_type(),
                   " and ", value.scalar_type());
  TORCH_CHECK_VALUE(value.device() == in_edges[0].device(), kAttention, ": the values are on ",
                    value.device(), ", the graph on ", in_edges[0].device());
  for (const Message& read : operands_of(score)) {
    const at::Tensor& x = operands[read->operand];
    TORCH_CHECK_VALUE(read->target != Target::kSource || x.sym_size(0) == value.sym_size(0),
                      kAttention, ": expected values of ", x.sym_size(0), " sources, as operand ",
                      read->operand, " has, found ", value.sym_size(0));
  }
  const at::SymDimVector shape = symbolic_shape(kAttention, score, operands);
  const auto heads = value.sym_size(1);
  const bool fits =
      (shape.size() == 1 || (shape.size() == 2 && shape[1] == 1)) && shape[0] == heads;
  TORCH_CHECK_VALUE(fits, kAttention, ": expected scores of shape [", heads, "] or [", heads,
                    ", 1] for values ", value.sym_sizes(), ", found ", c10::SymIntArrayRef(shape));
}

namespace {

at::Tensor attention_meta(at::TensorList in_edges, at::TensorList out_edges, std::string_view score,
                          at::TensorList operands, const at::Tensor& value) {
  check_attention(in_edges, out_edges, message_of(kAttention, std::string(score)), operands, value);
  return at::empty_symint({in_edges[0].sym_size(0) - 1, value.sym_size(1), value.sym_size(2)},
                          value.options());
}

}  // namespace

at::Tensor call_attention(at::TensorList in_edges, at::TensorList out_edges, std::string_view score,
                          at::TensorList operands, const at::Tensor& value) {
  static const auto op = operator_of<decltype(attention_meta)>(kAttention);
  return op.call(in_edges, out_edges, score, operands, value);
}

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "attention(Tensor[] in_edges, Tensor[] out_edges, str score, Tensor[] operands, "
      "Tensor value) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) { m.impl("attention", attention_meta); }

}  // namespace smex::kernels
