#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "kernels/operator_of.h"
#include "kernels/winners/operator.h"

namespace smex::kernels {
namespace {

at::Tensor scatter_meta(const at::Tensor& grad, const at::Tensor&, const Table&, c10::SymInt rows,
                        at::IntArrayRef features, bool) {
  at::SymDimVector shape = {rows};
  for (const int64_t size : features) shape.emplace_back(size);
  return at::empty_symint(shape, grad.options());
}

at::Tensor gather_meta(const at::Tensor& x, const at::Tensor& winner, const Table&,
                       at::IntArrayRef seen, bool) {
  at::SymDimVector shape = {winner.sym_size(0)};
  for (const int64_t size : seen) shape.emplace_back(size);
  return at::empty_symint(shape, x.options());
}

}  // namespace

at::Tensor call_scatter_winners(const at::Tensor& grad, const at::Tensor& winner,
                                const Table& table, const c10::SymInt& rows,
                                at::IntArrayRef features, bool is_distinct) {
  static const auto op = operator_of<decltype(scatter_meta)>(kScatterWinners);
  return op.call(grad, winner, table, rows, features, is_distinct);
}

at::Tensor call_gather_winners(const at::Tensor& x, const at::Tensor& winner, const Table& table,
                               at::IntArrayRef seen, bool is_distinct) {
  static const auto op = operator_of<decltype(gather_meta)>(kGatherWinners);
  return op.call(x, winner, table, seen, is_distinct);
}

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "scatter_winners(Tensor grad, Tensor winner, Tensor? table, SymInt rows, int[] features, "
      "bool is_distinct) -> Tensor");
  m.def(
      "gather_winners(Tensor x, Tensor winner, Tensor? table, int[] seen, bool is_distinct) -> "
      "Tensor");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("scatter_winners", scatter_meta);
  m.impl("gather_winners", gather_meta);
}

}  // namespace smex::kernels
