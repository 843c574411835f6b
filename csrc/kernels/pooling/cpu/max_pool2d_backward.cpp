#include "kernels/pooling/max_pool2d_backward.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <limits>

namespace smex::kernels {
namespace {

/// The elements of one window along one dimension, inside of the plane.
struct Reach {
  int64_t begin, end;
};

Reach reach(const Pool2d& pool, int dim, int64_t place) {
  int64_t begin = place * pool.stride[dim] - pool.padding[dim];
  const int64_t end = begin + (pool.kernel[dim] - 1) * pool.dilation[dim] + 1;
  if (begin < 0)
    begin += (-begin + pool.dilation[dim] - 1) / pool.dilation[dim] * pool.dilation[dim];
  return {begin, std::min(end, pool.in[dim])};
}

template <typename T>
int64_t largest(const Pool2d& pool, const T* x, const Reach& rows, const Reach& columns) {
  int64_t best = rows.begin * pool.in[1] + columns.begin;
  T value = -std::numeric_limits<T>::infinity();
  for (int64_t row = rows.begin; row < rows.end; row += pool.dilation[0]) {
    for (int64_t column = columns.begin; column < columns.end; column += pool.dilation[1]) {
      const T candidate = x[row * pool.in[1] + column];
      if (candidate > value || candidate != candidate) {
        value = candidate;
        best = row * pool.in[1] + column;
      }
    }
  }
  return best;
}

/// The common window, 2 by 2 without padding: no bounds and no inner loops.
template <typename T>
void backward_2x2(const Pool2d& pool, const T* grad, const T* x, T* result) {
  const int64_t width = pool.in[1];
  for (int64_t row = 0; row < pool.out[0]; ++row) {
    for (int64_t column = 0; column < pool.out[1]; ++column) {
      const int64_t first = row * pool.stride[0] * width + column * pool.stride[1];
      const int64_t at[4] = {first, first + 1, first + width, first + width + 1};
      int64_t best = at[0];
      T value = x[best];
      for (int i = 1; i < 4; ++i) {
        const T candidate = x[at[i]];
        const bool larger = candidate > value || candidate != candidate;
        value = larger ? candidate : value;
        best = larger ? at[i] : best;
      }
      result[best] += grad[row * pool.out[1] + column];
    }
  }
}

}  // namespace

template <typename T>
void max_pool2d_backward_cpu(const Pool2d& pool, const T* grad, const T* x, T* result,
                             int64_t begin, int64_t end) {
  const int64_t in = pool.in[0] * pool.in[1], out = pool.out[0] * pool.out[1];
  const bool plain = pool.kernel[0] == 2 && pool.kernel[1] == 2 && pool.padding[0] == 0 &&
                     pool.padding[1] == 0 && pool.dilation[0] == 1 && pool.dilation[1] == 1;
  for (int64_t plane = begin; plane < end; ++plane) {
    const T* const plane_grad = grad + plane * out;
    const T* const plane_x = x + plane * in;
    T* const plane_result = result + plane * in;
    std::fill_n(plane_result, in, T(0));
    if (plain) {
      backward_2x2(pool, plane_grad, plane_x, plane_result);
      continue;
    }
    for (int64_t row = 0; row < pool.out[0]; ++row) {
      const Reach rows = reach(pool, 0, row);
      for (int64_t column = 0; column < pool.out[1]; ++column) {
        const Reach columns = reach(pool, 1, column);
        if (rows.begin >= rows.end || columns.begin >= columns.end) continue;  // in the padding
        plane_result[largest(pool, plane_x, rows, columns)] +=
            plane_grad[row * pool.out[1] + column];
      }
    }
  }
}

#define SMEX_INSTANTIATE(T) \
  template void max_pool2d_backward_cpu<T>(const Pool2d&, const T*, const T*, T*, int64_t, int64_t);
SMEX_INSTANTIATE(float)
SMEX_INSTANTIATE(double)
SMEX_INSTANTIATE(c10::Half)
SMEX_INSTANTIATE(c10::BFloat16)
#undef SMEX_INSTANTIATE

}  // namespace smex::kernels
