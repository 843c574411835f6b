#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"

namespace smex::kernels {

/// Max pooling of planes `[in[0], in[1]]` to `[out[0], out[1]]`, floor mode.
struct Pool2d {
  int64_t kernel[2];
  int64_t stride[2];
  int64_t padding[2];
  int64_t dilation[2];
  int64_t in[2];
  int64_t out[2];
};

/// Writes the gradient of the planes `begin` to `end`: each element of `grad` goes to the first of
/// the largest elements of its window, a NaN being the largest.
template <typename T>
void max_pool2d_backward_cpu(const Pool2d& pool, const T* grad, const T* x, T* result,
                             int64_t begin, int64_t end);

// clang-format off
SMEX_FOR_EACH_ISA(
    /// The same of float and double, a row of windows at a time.
    template <typename T>
    void max_pool2d_backward_by_rows(const Pool2d& pool, const T* grad, const T* x, T* result,
                                     int64_t begin, int64_t end);
)
// clang-format on

}  // namespace smex::kernels
