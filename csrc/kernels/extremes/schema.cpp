// Positions of extremes: ATen's count from the first element that they are given, and so mean
// nothing in a tile of a row.
#include "kernels/extremes/operator.h"

#include <ATen/ops/empty_like.h>
#include <torch/library.h>

namespace smex::kernels {

void check_first_position(const at::Tensor& x, const at::Tensor& value, int64_t dim,
                          at::IntArrayRef offset) {
  TORCH_CHECK_INDEX(dim >= 0 && dim < x.dim(), "smex::first_position: expected a dimension below ",
                    x.dim(), ", found ", dim);
  at::SymDimVector shape(x.sym_sizes());
  shape[dim] = 1;
  TORCH_CHECK_VALUE(value.sym_sizes() == c10::SymIntArrayRef(shape),
                    "smex::first_position: expected values of shape ", c10::SymIntArrayRef(shape),
                    ", found ", value.sym_sizes());
  TORCH_CHECK_TYPE(value.scalar_type() == x.scalar_type(),
                   "smex::first_position: expected values of type ", x.scalar_type(), ", found ",
                   value.scalar_type());
  TORCH_CHECK_VALUE(offset.size() <= 1,
                    "smex::first_position: offset is empty, or where the tile begins, found ",
                    offset);
}

namespace {

at::Tensor first_position_meta(const at::Tensor& x, const at::Tensor& value, int64_t dim,
                               at::IntArrayRef offset) {
  check_first_position(x, value, dim, offset);
  return at::empty_like(value, value.options().dtype(at::kLong), at::MemoryFormat::Contiguous);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def("first_position(Tensor x, Tensor value, int dim, int[] offset=[]) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) { m.impl("first_position", first_position_meta); }

}  // namespace smex::kernels
