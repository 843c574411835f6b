// Elements added up at places along a dimension, in a tile of the result that begins anywhere.
#pragma once

#include <ATen/core/Tensor.h>

namespace smex::kernels {

/// Throws where shapes or types do not fit each other. `x` and `index` have the result's `shape`
/// but for `dim`; `offset` is empty, or where the tile begins in each dimension.
void check_scatter_sum(const at::Tensor& x, const at::Tensor& index, int64_t dim,
                       at::IntArrayRef shape, at::IntArrayRef offset);

/// The place along `dim` at which the tile begins.
inline int64_t begin_of(at::IntArrayRef offset, int64_t dim) {
  return offset.empty() ? 0 : offset[dim];
}

/// By ATen's operators, for any device and type.
at::Tensor scatter_sum(const at::Tensor& x, const at::Tensor& index, int64_t dim,
                       at::IntArrayRef shape, at::IntArrayRef offset);

}  // namespace smex::kernels
