// Sums of feature rows with a weight for each head. Included by kernels that are compiled per
// instruction set.
#pragma once

#include "kernels/cpu/simd.h"

namespace smex::kernels::SMEX_ISA {

/// The rows that a list of ids asks for.
template <typename T, typename I>
struct GatheredRows {
  const T* data = nullptr;
  const I* ids = nullptr;
  int64_t size = 0;  ///< of a row

  SMEX_INLINE const T* operator[](int64_t k) const { return data + int64_t{ids[k]} * size; }
};

/// `sum[h * inner + d] += weight[k * heads + h] * rows[k][h * inner + d]` for k below `count`, NV
/// vectors of W elements from `first` on at a time. W divides `inner`, or `inner` is `kInner`,
/// which divides W.
template <int W, int NV, int kInner, typename T, typename I>
SMEX_INLINE void add_weighted_tile(int64_t count, int64_t heads, int64_t inner, int64_t first,
                                   const accumulate_t<T>* weights, const GatheredRows<T, I>& rows,
                                   accumulate_t<T>* sums) {
  using C = accumulate_t<T>;
  Vector<C, W> sum[NV];
  int64_t head[NV];
#pragma GCC unroll 16
  for (int j = 0; j < NV; ++j) {
    sum[j] = load<C, W>(sums + first + j * W);
    head[j] = (first + j * W) / inner;
  }
  for (int64_t k = 0; k < count; ++k) {
    const T* const from = rows[k] + first;
    const C* const weight = weights + k * heads;
#pragma GCC unroll 16
    for (int j = 0; j < NV; ++j)
      sum[j] += load<C, W>(from + j * W) * load_repeated<W, kInner>(weight + head[j]);
  }
#pragma GCC unroll 16
  for (int j = 0; j < NV; ++j) store<W>(sums + first + j * W, sum[j]);
}

template <int W, int NV, int kInner, typename T, typename I>
void add_weighted_from(int64_t& first, int64_t count, int64_t heads, int64_t inner,
                       const accumulate_t<T>* weights, const GatheredRows<T, I>& rows,
                       accumulate_t<T>* sums) {
  for (; heads * inner - first >= W * NV; first += W * NV)
    add_weighted_tile<W, NV, kInner>(count, heads, inner, first, weights, rows, sums);
  if constexpr (NV > 1)
    add_weighted_from<W, NV / 2, kInner>(first, count, heads, inner, weights, rows, sums);
}

/// As `add_weighted_tile`, for all elements.
template <typename T, typename I, int W = kLanes<accumulate_t<T>>>
void add_weighted_rows(int64_t count, int64_t heads, int64_t inner, const accumulate_t<T>* weights,
                       const GatheredRows<T, I>& rows, accumulate_t<T>* sums) {
  constexpr int kVectors = kVectorBytes == 64 ? 16 : 8;  // of 32 and 16 registers
  int64_t first = 0;
  if constexpr (W >= 4) {
    if (inner == 2 && heads * inner % W == 0)
      return add_weighted_from<W, kVectors, 2>(first, count, heads, inner, weights, rows, sums);
  }
  if constexpr (W > 1) {
    if (inner % W != 0)
      return add_weighted_rows<T, I, W / 2>(count, heads, inner, weights, rows, sums);
  }
  add_weighted_from<W, kVectors, W>(first, count, heads, inner, weights, rows, sums);
}

}  // namespace smex::kernels::SMEX_ISA
