// Compiled once for each instruction set.
#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/pooling/max_pool2d_backward.h"

namespace smex::kernels::SMEX_ISA {
namespace {

/// Division that rounds up, of what may be negative.
int64_t ceil_div(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

/// The first place of a window's elements inside of the plane, along one dimension.
int64_t first_inside(const Pool2d& pool, int dim, int64_t window) {
  const int64_t begin = window * pool.stride[dim] - pool.padding[dim];
  const int64_t skipped = begin < 0 ? ceil_div(-begin, pool.dilation[dim]) : 0;
  return begin + skipped * pool.dilation[dim];
}

/// An element of the windows of a row: where that of the first window lies, and the windows of
/// which it is inside of the plane.
struct Column {
  int64_t shift, from, to;
};

std::vector<Column> columns_of(const Pool2d& pool) {
  std::vector<Column> columns;
  for (int64_t k = 0; k < pool.kernel[1]; ++k) {
    const int64_t shift = k * pool.dilation[1] - pool.padding[1];
    columns.push_back({shift, std::max<int64_t>(0, ceil_div(-shift, pool.stride[1])),
                       std::min(pool.out[1], ceil_div(pool.in[1] - shift, pool.stride[1]))});
  }
  return columns;
}

/// The largest elements so far of each window of a row, and where they lie.
template <typename T>
struct Largest {
  std::vector<T> value;
  std::vector<int32_t> place;
};

/// Looks at one element of each of the windows `from` to `to`: no branch depends on values.
/// `Step` is the windows' stride where it is known, so that the loop is made wide; 0: `any_step`.
template <int64_t Step, typename T>
void look(const T* __restrict x, int64_t shift, int64_t any_step, int32_t place, int64_t from,
          int64_t to, T* __restrict value, int32_t* __restrict best) {
  const int64_t step = Step > 0 ? Step : any_step;
  const auto stride = static_cast<int32_t>(step);
  for (int64_t w = from; w < to; ++w) {
    const T candidate = x[shift + w * step];
    const bool larger = (candidate > value[w]) | (candidate != candidate);
    value[w] = larger ? candidate : value[w];
    best[w] = larger ? place + static_cast<int32_t>(w) * stride : best[w];
  }
}

template <typename T>
void look_at_row(const Pool2d& pool, const std::vector<Column>& columns, const T* x, int64_t row,
                 Largest<T>& largest) {
  const T* const line = x + row * pool.in[1];
  for (const auto& [shift, from, to] : columns) {
    const auto place = static_cast<int32_t>(row * pool.in[1] + shift);
    T* const value = largest.value.data();
    int32_t* const best = largest.place.data();
    if (pool.stride[1] == 1) {
      look<1>(line, shift, 1, place, from, to, value, best);
    } else if (pool.stride[1] == 2) {
      look<2>(line, shift, 2, place, from, to, value, best);
    } else {
      look<0>(line, shift, pool.stride[1], place, from, to, value, best);
    }
  }
}

}  // namespace

template <typename T>
void max_pool2d_backward_by_rows(const Pool2d& pool, const T* grad, const T* x, T* result,
                                 int64_t begin, int64_t end) {
  const int64_t in = pool.in[0] * pool.in[1], out = pool.out[0] * pool.out[1];
  Largest<T> largest{std::vector<T>(pool.out[1]), std::vector<int32_t>(pool.out[1])};
  const std::vector<Column> columns = columns_of(pool);
  std::vector<int32_t> firsts;  // inside of the plane, by window of a row
  for (int64_t w = 0; w < pool.out[1]; ++w) {
    firsts.push_back(static_cast<int32_t>(first_inside(pool, 1, w)));
  }
  for (int64_t plane = begin; plane < end; ++plane) {
    T* const to = result + plane * in;
    std::fill_n(to, in, T(0));
    for (int64_t window = 0; window < pool.out[0]; ++window) {
      const int64_t reach =
          window * pool.stride[0] - pool.padding[0] + (pool.kernel[0] - 1) * pool.dilation[0] + 1;
      const int64_t first = first_inside(pool, 0, window), last = std::min(reach, pool.in[0]);
      if (first >= last) continue;  // in the padding
      for (int64_t w = 0; w < pool.out[1]; ++w) {
        largest.value[w] = -std::numeric_limits<T>::infinity();
        largest.place[w] = static_cast<int32_t>(first * pool.in[1]) + firsts[w];
      }
      for (int64_t row = first; row < last; row += pool.dilation[0]) {
        look_at_row(pool, columns, x + plane * in, row, largest);
      }
      const T* const from = grad + plane * out + window * pool.out[1];
      for (int64_t w = 0; w < pool.out[1]; ++w) {
        if (firsts[w] < pool.in[1]) to[largest.place[w]] += from[w];
      }
    }
  }
}

#define SMEX_INSTANTIATE(T)                                                                    \
  template void max_pool2d_backward_by_rows<T>(const Pool2d&, const T*, const T*, T*, int64_t, \
                                               int64_t);
SMEX_INSTANTIATE(float)
SMEX_INSTANTIATE(double)
#undef SMEX_INSTANTIATE

}  // namespace smex::kernels::SMEX_ISA
