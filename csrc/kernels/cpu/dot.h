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

/// Adds neighbours within each half of 128 bits: cheaper than across them.
SMEX_INLINE Vector<float, 8> add_pairs_in_halves(Vector<float, 8> a, Vector<float, 8> b) {
  constexpr Mask<float, 8> kEven = {0, 2, 8, 10, 4, 6, 12, 14};
  constexpr Mask<float, 8> kOdd = {1, 3, 9, 11, 5, 7, 13, 15};
  return __builtin_shuffle(a, b, kEven) + __builtin_shuffle(a, b, kOdd);
}

/// The dot products of 4 runs of 8 elements; of each one half of the sum in either half.
template <typename T>
SMEX_INLINE Vector<float, 8> half_dots(const T* x, const T* y) {
  constexpr int W = 8;
  const auto product = [&](int run) {
    return load<float, W>(x + run * W) * load<float, W>(y + run * W);
  };
  return add_pairs_in_halves(add_pairs_in_halves(product(0), product(1)),
                             add_pairs_in_halves(product(2), product(3)));
}

/// The dot products of 8 runs of 8 elements, as `dots_of_vectors<8, 8>`.
template <typename T>
SMEX_INLINE Vector<float, 8> eight_dots(const T* x, const T* y) {
  constexpr Mask<float, 8> kLow = {0, 1, 2, 3, 8, 9, 10, 11};
  constexpr Mask<float, 8> kHigh = {4, 5, 6, 7, 12, 13, 14, 15};
  const auto first = half_dots(x, y), second = half_dots(x + 32, y + 32);
  return __builtin_shuffle(first, second, kLow) + __builtin_shuffle(first, second, kHigh);
}

/// `to[h]` = the dot product of the h-th `inner` elements of `a` and `b`.
template <typename T, typename U>
SMEX_INLINE void head_dots(const T* a, const T* b, int64_t heads, int64_t inner, U* to) {
  using C = accumulate_t<T>;
  constexpr int W = kLanes<C>;
  int64_t h = 0;
  if constexpr (W >= 8 && sizeof(C) == 4) {
    constexpr int kHeads = 8;
    for (; inner == kHeads && h + kHeads <= heads; h += kHeads)
      store<kHeads>(to + h, eight_dots(a + h * kHeads, b + h * kHeads));
  }
  for (; inner == W && h + W <= heads; h += W)
    store<W>(to + h, dots_of_vectors<W, W>(a + h * W, b + h * W));
  for (; h < heads; ++h) {
    const T *const left = a + h * inner, *const right = b + h * inner;
    store_one(to + h, inner >= W   ? dot<W>(left, right, inner)
                      : inner >= 4 ? dot<4>(left, right, inner)
                                   : dot<1>(left, right, inner));
  }
}

}  // namespace smex::kernels::SMEX_ISA
