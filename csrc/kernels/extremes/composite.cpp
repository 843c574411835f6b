#include <ATen/TensorOperators.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include "kernels/extremes/operator.h"

namespace smex::kernels {
namespace {

at::Tensor first_position(const at::Tensor& x, const at::Tensor& value, int64_t dim,
                          at::IntArrayRef offset) {
  check_first_position(x, value, dim, offset);
  at::Tensor here = x.eq(value);
  if (x.is_floating_point()) here = here | (x.ne(x) & value.ne(value));  // not a number
  at::DimVector shape(x.dim(), 1);
  shape[dim] = x.size(dim);
  const int64_t first = first_of(offset);
  const at::Tensor places =
      at::arange(first, first + x.size(dim), x.options().dtype(at::kLong)).view(shape);
  return at::amin(at::where(here, places, kNowhere), dim, /*keepdim=*/true);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) { m.impl("first_position", first_position); }

}  // namespace smex::kernels
