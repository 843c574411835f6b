// Gradients of elements that were chosen by their positions: ATen's scatter counts positions from
// the first element that it is given, and fails on those beyond its tensor.
#include "kernels/scatter_sum/operator.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

namespace smex::kernels {

void check_scatter_sum(const at::Tensor& x, const at::Tensor& index, int64_t dim,
                       at::IntArrayRef shape, at::IntArrayRef offset) {
  const auto rank = static_cast<int64_t>(shape.size());
  TORCH_CHECK_INDEX(dim >= 0 && dim < rank, "smex::scatter_sum: expected a dimension below ", rank,
                    ", found ", dim);
  TORCH_CHECK_TYPE(index.scalar_type() == at::kLong,
                   "smex::scatter_sum: expected positions of type Long, found ",
                   index.scalar_type());
  TORCH_CHECK_VALUE(x.sym_sizes() == index.sym_sizes(),
                    "smex::scatter_sum: expected a position for each element of ", x.sym_sizes(),
                    ", found ", index.sym_sizes());
  bool fits = x.dim() == rank;
  for (int64_t d = 0; fits && d < rank; ++d) fits = d == dim || x.sym_size(d) == shape[d];
  TORCH_CHECK_VALUE(fits, "smex::scatter_sum: expected elements of the result's shape ", shape,
                    " but for dimension ", dim, ", found ", x.sym_sizes());
  TORCH_CHECK_VALUE(offset.empty() || static_cast<int64_t>(offset.size()) == rank,
                    "smex::scatter_sum: offset is empty, or where the tile begins in each of ",
                    rank, " dimensions, found ", offset);
}

namespace {

at::Tensor scatter_sum_meta(const at::Tensor& x, const at::Tensor& index, int64_t dim,
                            at::IntArrayRef shape, at::IntArrayRef offset) {
  check_scatter_sum(x, index, dim, shape, offset);
  return at::empty(shape, x.options());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def("scatter_sum(Tensor x, Tensor index, int dim, int[] shape, int[] offset=[]) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) { m.impl("scatter_sum", scatter_sum_meta); }

}  // namespace smex::kernels
