#include <ATen/TensorOperators.h>
#include <ATen/ops/scatter_add.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "kernels/scatter_sum/operator.h"

namespace smex::kernels {

at::Tensor scatter_sum(const at::Tensor& x, const at::Tensor& index, int64_t dim,
                       at::IntArrayRef shape, at::IntArrayRef offset) {
  check_scatter_sum(x, index, dim, shape, offset);
  const at::Tensor zeros = at::zeros(shape, x.options());
  if (shape[dim] == 0) return zeros;
  const at::Tensor place = index - begin_of(offset, dim);
  const at::Tensor here = (place >= 0).logical_and(place < shape[dim]);
  return zeros.scatter_add(dim, at::where(here, place, 0),
                           at::where(here, x, at::zeros({}, x.options())));
}

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) { m.impl("scatter_sum", scatter_sum); }

}  // namespace smex::kernels
