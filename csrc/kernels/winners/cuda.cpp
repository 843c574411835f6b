// By torch's operators.
#include <ATen/TensorOperators.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "kernels/winners/operator.h"
#include "kernels/winners/places.h"

namespace smex::kernels {
namespace {

at::Tensor zeros_of(int64_t rows, at::IntArrayRef features, const at::TensorOptions& options) {
  std::vector<int64_t> shape = {rows};
  shape.insert(shape.end(), features.begin(), features.end());
  return at::zeros(shape, options);
}

/// Nothing has won where there are no edges.
bool has_no_rows(const Table& table) { return table && table->numel() == 0; }

/// The element of [rows, features] for each of [V, seen], flat, and whether it has won.
std::pair<at::Tensor, at::Tensor> linear_places(const at::Tensor& winner, const Table& table,
                                                const WinnerPlaces& places) {
  const auto options = winner.options().dtype(at::kLong);
  const at::Tensor column = at::tensor(places.winner, options);
  const at::Tensor won = winner.reshape({winner.size(0), -1}).index_select(1, column);
  at::Tensor id = won.clamp_min(0);
  if (table) id = table->index_select(0, id.reshape({-1})).view(won.sizes());
  const at::Tensor place = id.to(at::kLong) * places.features + at::tensor(places.feature, options);
  return {place.reshape({-1}), won.ge(0).reshape({-1})};
}

at::Tensor scatter_on_cuda(const at::Tensor& grad, const at::Tensor& winner, const Table& table,
                           int64_t rows, at::IntArrayRef features, bool) {
  const bool is_half = grad.scalar_type() == at::kHalf || grad.scalar_type() == at::kBFloat16;
  const at::Tensor from = is_half ? grad.to(at::kFloat) : grad;
  const at::Tensor out = zeros_of(rows, features, from.options());
  if (out.numel() == 0 || from.numel() == 0 || has_no_rows(table))
    return out.to(grad.scalar_type());
  const WinnerPlaces places(features_of(winner), features.vec(), features_of(grad));
  const auto [place, won] = linear_places(winner, table, places);
  const at::Tensor added = at::where(won, from.reshape({-1}), at::zeros({}, from.options()));
  // Sorts the places, and adds up those that are equal in order: deterministic, unlike scatter_add.
  out.view({-1}).index_put_({place}, added, /*accumulate=*/true);
  return out.to(grad.scalar_type());
}

at::Tensor gather_on_cuda(const at::Tensor& x, const at::Tensor& winner, const Table& table,
                          at::IntArrayRef seen, bool) {
  const at::Tensor out = zeros_of(winner.size(0), seen, x.options());
  if (x.numel() == 0 || out.numel() == 0 || has_no_rows(table)) return out;
  const WinnerPlaces places(features_of(winner), features_of(x), seen.vec());
  const auto [place, won] = linear_places(winner, table, places);
  const at::Tensor taken = x.reshape({-1}).index_select(0, place);
  return at::where(won, taken, at::zeros({}, x.options())).view(out.sizes());
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CUDA, m) {
  m.impl("scatter_winners", scatter_on_cuda);
  m.impl("gather_winners", gather_on_cuda);
}

}  // namespace smex::kernels
