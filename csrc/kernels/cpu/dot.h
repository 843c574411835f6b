// Dot products, one for each head. Included by kernels that are compiled per instruction set.
#pragma once

#include "kernels/cpu/simd.h"

namespace smex::kernels::SMEX_ISA {

/// The dot product of the whole vectors in `count` elements, in lanes that are still to be added.
template <int W, typename T, typename U>
SMEX_INLINE Vector<accumulate_t<T>, W> dot_lanes(const T* x, const U* y, int64_t count) {
  using C = accumulate_t<T>;
  Vector<C, W> sum = {}, other = {};
  int64_t i = 0;
  for (; i + 2 * W <= count; i += 2 * W) {
    sum += load<C, W>(x + i) * load<C, W>(y + i);
    other += load<C, W>(x + i + W) * load<C, W>(y + i + W);
  }
  if (i + W <= count) sum += load<C, W>(x + i) * load<C, W>(y + i);
  return sum + other;
}

/// The dot product of `count` elements.
template <int W, typename T, typename U>
SMEX_INLINE accumulate_t<T> dot(const T* x, const U* y, int64_t count) {
  using C = accumulate_t<T>;
  C total = sum_lanes<C, W>(dot_lanes<W>(x, y, count));
  for (int64_t i = count / W * W; i < count; ++i) total += load_one(x + i) * load_one(y + i);
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

/// The sums of the lanes of four vectors: for each half of them is added first, which is cheap.
template <typename C, int W>
SMEX_INLINE Vector<C, 4> four_sums(Vector<C, W> a, Vector<C, W> b, Vector<C, W> c, Vector<C, W> d) {
  if constexpr (W == 4) {
    return add_pairs<C, 4>(add_pairs<C, 4>(a, b), add_pairs<C, 4>(c, d));
  } else {
    return four_sums<C, W / 2>(add_halves<C, W>(a), add_halves<C, W>(b), add_halves<C, W>(c),
                               add_halves<C, W>(d));
  }
}

/// The dot products of W runs of `kInner` elements.
template <int W, int kInner, typename T, typename U>
SMEX_INLINE Vector<accumulate_t<T>, W> dots_of_runs(const T* x, const U* y) {
  using C = accumulate_t<T>;
  if constexpr (kInner == 1) {
    return load<C, W>(x) * load<C, W>(y);
  } else {
    constexpr int kHalf = kInner / 2;
    return add_pairs<C, W>(dots_of_runs<W, kHalf>(x, y),
                           dots_of_runs<W, kHalf>(x + kHalf * W, y + kHalf * W));
  }
}

/// Adds neighbours within each half of 128 bits: cheaper than across them.
SMEX_INLINE Vector<float, 8> add_pairs_in_halves(Vector<float, 8> a, Vector<float, 8> b) {
  constexpr Mask<float, 8> kEven = {0, 2, 8, 10, 4, 6, 12, 14};
  constexpr Mask<float, 8> kOdd = {1, 3, 9, 11, 5, 7, 13, 15};
  return __builtin_shuffle(a, b, kEven) + __builtin_shuffle(a, b, kOdd);
}

/// The dot products of 4 runs of 8 elements; of each one half of the sum in either half.
template <typename T, typename U>
SMEX_INLINE Vector<float, 8> half_dots(const T* x, const U* y) {
  constexpr int W = 8;
  const auto product = [&](int run) {
    return load<float, W>(x + run * W) * load<float, W>(y + run * W);
  };
  return add_pairs_in_halves(add_pairs_in_halves(product(0), product(1)),
                             add_pairs_in_halves(product(2), product(3)));
}

/// The dot products of 8 runs of 8 elements, as `dots_of_runs<8, 8>`.
template <typename T, typename U>
SMEX_INLINE Vector<float, 8> eight_dots(const T* x, const U* y) {
  constexpr Mask<float, 8> kLow = {0, 1, 2, 3, 8, 9, 10, 11};
  constexpr Mask<float, 8> kHigh = {4, 5, 6, 7, 12, 13, 14, 15};
  const auto first = half_dots(x, y), second = half_dots(x + 32, y + 32);
  return __builtin_shuffle(first, second, kLow) + __builtin_shuffle(first, second, kHigh);
}

/// `to[h]` = the dot product of the h-th `inner` elements of `a` and `b`, which may be in the type
/// of sums already.
template <typename T, typename U, typename To>
SMEX_INLINE void head_dots(const T* a, const U* b, int64_t heads, int64_t inner, To* to) {
  using C = accumulate_t<T>;
  constexpr int W = kLanes<C>;
  int64_t h = 0;
  if constexpr (W >= 8 && sizeof(C) == 4) {
    constexpr int kHeads = 8;
    for (; inner == 8 && h + kHeads <= heads; h += kHeads)
      store<kHeads>(to + h, eight_dots(a + h * 8, b + h * 8));
    for (; inner == 2 && h + kHeads <= heads; h += kHeads)
      store<kHeads>(to + h, dots_of_runs<kHeads, 2>(a + h * 2, b + h * 2));
    for (; inner == 4 && h + kHeads <= heads; h += kHeads)
      store<kHeads>(to + h, dots_of_runs<kHeads, 4>(a + h * 4, b + h * 4));
  }
  for (; inner == W && h + W <= heads; h += W)
    store<W>(to + h, dots_of_runs<W, W>(a + h * W, b + h * W));
  for (; h < heads; ++h) {
    const T* const left = a + h * inner;
    const U* const right = b + h * inner;
    store_one(to + h, inner >= W   ? dot<W>(left, right, inner)
                      : inner >= 4 ? dot<4>(left, right, inner)
                                   : dot<1>(left, right, inner));
  }
}

}  // namespace smex::kernels::SMEX_ISA
