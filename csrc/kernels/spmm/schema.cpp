// smex::spmm and smex::spmm_extremum: messages along edges, reduced at their destinations, without
// storing a message.
#include <torch/library.h>

#include <limits>

#include "kernels/message/operands.h"
#include "kernels/operator_of.h"
#include "kernels/spmm/operator.h"

namespace smex::kernels {

Reduce reduce_of(const char* op, std::string_view name, bool extremum) {
  if (extremum && name == "max") return Reduce::kMax;
  if (extremum && name == "min") return Reduce::kMin;
  if (!extremum && name == "sum") return Reduce::kSum;
  if (!extremum && name == "mean") return Reduce::kMean;
  TORCH_CHECK_VALUE(false, op, ": reduce is ", extremum ? "'max' or 'min'" : "'sum' or 'mean'",
                    ", found '", name, "'");
}

double empty_value(Reduce reduce, bool zero_empty) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return zero_empty ? 0 : reduce == Reduce::kMax ? -kInfinity : kInfinity;
}

void check_sums_at_root(const char* op, const Message& message, bool at_root) {
  TORCH_CHECK_VALUE(at_root || message->op != MessageOp::kSumLast, op,
                    ": max and min take dot and sum_last as the whole message only");
  if (message->a) check_sums_at_root(op, message->a, false);
  if (message->b) check_sums_at_root(op, message->b, false);
}

namespace {

at::SymDimVector out_shape(const char* op, at::TensorList in_edges, const Message& message,
                           at::TensorList operands) {
  at::SymDimVector shape = symbolic_shape(op, message, operands);
  shape.insert(shape.begin(), in_edges[0].sym_size(0) - 1);
  return shape;
}

at::Tensor spmm_meta(at::TensorList in_edges, at::TensorList out_edges, std::string_view message,
                     std::string_view reduce, at::TensorList operands) {
  reduce_of(kSpmm, reduce, /*extremum=*/false);
  const Message parsed = message_of(kSpmm, std::string(message));
  check_operands(kSpmm, parsed, in_edges, out_edges, operands);
  return at::empty_symint(out_shape(kSpmm, in_edges, parsed, operands), operands[0].options());
}

std::tuple<at::Tensor, at::Tensor> extremum_meta(at::TensorList in_edges, at::TensorList out_edges,
                                                 std::string_view message, std::string_view reduce,
                                                 at::TensorList operands, bool, bool need_winner,
                                                 at::IntArrayRef offset) {
  TORCH_CHECK_VALUE(offset.size() <= 1, kExtremum,
                    ": offset is empty, or the number of edges before a tile's, found ", offset);
  reduce_of(kExtremum, reduce, /*extremum=*/true);
  const Message parsed = message_of(kExtremum, std::string(message));
  check_operands(kExtremum, parsed, in_edges, out_edges, operands);
  check_sums_at_root(kExtremum, parsed);
  const at::SymDimVector shape = out_shape(kExtremum, in_edges, parsed, operands);
  const auto ids = in_edges[0].options();
  return {at::empty_symint(shape, operands[0].options()),
          need_winner ? at::empty_symint(shape, ids) : at::empty({0}, ids)};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> call_extremum(at::TensorList in_edges, at::TensorList out_edges,
                                                 std::string_view message, std::string_view reduce,
                                                 at::TensorList operands, bool zero_empty,
                                                 bool need_winner, at::IntArrayRef offset) {
  static const auto op = operator_of<decltype(extremum_meta)>(kExtremum);
  return op.call(in_edges, out_edges, message, reduce, operands, zero_empty, need_winner, offset);
}

void count_from(at::Tensor& winner, at::IntArrayRef offset) {
  if (!offset.empty() && offset[0] != 0 && winner.numel() > 0)
    winner.add_(winner.ge(0).to(winner.scalar_type()), offset[0]);
}

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "spmm(Tensor[] in_edges, Tensor[] out_edges, str message, str reduce, Tensor[] operands) -> "
      "Tensor");
  m.def(
      "spmm_extremum(Tensor[] in_edges, Tensor[] out_edges, str message, str reduce, "
      "Tensor[] operands, bool zero_empty=False, bool need_winner=True, int[] offset=[]) -> "
      "(Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("spmm", spmm_meta);
  m.impl("spmm_extremum", extremum_meta);
}

}  // namespace smex::kernels
