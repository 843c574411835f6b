// Dot products, one for each head. Included by kernels that are compiled per instruction set.
#pragma once

#include "kernels/cpu/simd.h"

namespace smex::kernels::SMEX_ISA {

/// The dot product of `count` elements.
template <int W, typename T>
SMEX_INLINE accumulate_t<T> dot(const T* x, const T* y, int64_t count) {
  using C = accumulate_t<T>;
  Vector<C, W> sum = {}, other = {};
  int64_t i = 0;
  for (; i + 2 * W <= count; i += 2 * W) {
    sum += load<C, W>(x + i) * load<C, W>(y + i);
    other += load<C, W>(x + i + W) * load<C, W>(y + i + W);
  }
  if (i + W <= count) {
    sum += load<C, W>(x + i) * load<C, W>(y + i);
    i += W;
  }
  C total = sum_lanes<C, W>(sum + other);
  for (; i < count; ++i) total += load_one(x + i) * load_one(y + i);
  return total;
}

/// Adds neighbours: lane i of the result is the sum of the i-th pair of lanes of `a` and then `b`.
template <typename C, int W>
SMEX_INLINE Vector<C, W> add_pairs(Vector<C, W> a, Vector<C, W> b) {
  Mask<C, W> even, odd;
  for (int i = 0; i < W; ++i) {
    even[i] = 2 * i;
    odd[i] = 2 * i + 1;
  }
  return __builtin_shuffle(a, b, even) + __builtin_shuffle(a, b, odd);
}

/// The dot products of `kCount` runs of W elements, in neighbouring lanes; kCount = W fills them.
template <int W, int kCount, typename T>
SMEX_INLINE Vector<accumulate_t<T>, W> dots_of_vectors(const T* x, const T* y) {
  using C = accumulate_t<T>;
  if constexpr (kCount == 1) {
    return load<C, W>(x) * load<C, W>(y);
  } else {
    constexpr int kHalf = kCount / 2;
    return add_pairs<C, W>(dots_of_vectors<W, kHalf>(x, y),
                           dots_of_vectors<W, kHalf>(x + kHalf * W, y + kHalf * W));
  }
}

/// `to[h]` = the dot product of the h-th `inner` elements of `a` and `b`.
template <typename T, typename U>
SMEX_INLINE void head_dots(const T* a, const T* b, int64_t heads, int64_t inner, U* to) {
  using C = accumulate_t<T>;
  constexpr int W = kLanes<C>;
  int64_t h = 0;
  if (inner == 8 && W >= 8 && sizeof(C) == 4) {
    constexpr int kHeads = 8;
    for (; h + kHeads <= heads; h += kHeads)
      store<kHeads>(to + h, dots_of_vectors<kHeads, kHeads>(a + h * kHeads, b + h * kHeads));
  } else if (inner == W) {
    for (; h + W <= heads; h += W) store<W>(to + h, dots_of_vectors<W, W>(a + h * W, b + h * W));
  }
  for (; h < heads; ++h) {
    const T *const left = a + h * inner, *const right = b + h * inner;
    store_one(to + h, inner >= W   ? dot<W>(left, right, inner)
                      : inner >= 4 ? dot<4>(left, right, inner)
                                   : dot<1>(left, right, inner));
  }
}

}  // namespace smex::kernels::SMEX_ISA
