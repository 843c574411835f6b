// Where a value stands first along a dimension, in a tile that begins anywhere.
#pragma once

#include <ATen/core/Tensor.h>

#include <limits>

namespace smex::kernels {

/// What stands for the position of a value that is not there; more than any position, so that the
/// least over all tiles is the first of all.
inline constexpr int64_t kNowhere = std::numeric_limits<int64_t>::max();

/// Throws where shapes or types do not fit each other. `value` is `x` but for size 1 along `dim`.
void check_first_position(const at::Tensor& x, const at::Tensor& value, int64_t dim,
                          at::IntArrayRef offset);

/// The number of the tile's first position.
inline int64_t first_of(at::IntArrayRef offset) { return offset.empty() ? 0 : offset[0]; }

}  // namespace smex::kernels
