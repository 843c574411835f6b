// The exponential function on vectors. Included by kernels that are compiled per instruction set.
#pragma once

#include <cmath>

#include "kernels/cpu/simd.h"

namespace smex::kernels::SMEX_ISA {

/// e^r for |r| up to ln 2 / 2.
template <int W>
SMEX_INLINE Vector<float, W> exp_near_0(Vector<float, W> r) {
  auto p = splat<float, W>(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return p * (r * r) + r + 1.f;
}

/// e^x to about 2 ulp; infinity and 0 beyond the range, NaN stays.
template <int W>
SMEX_INLINE Vector<float, W> exp_of(Vector<float, W> x) {
  // x = n ln 2 + r with |r| <= ln 2 / 2; e^r by a polynomial, 2^n through the exponent's bits.
  using V = Vector<float, W>;
  using N = Vector<int32_t, W>;
  constexpr float kLog2E = 1.44269504088896341f;
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kLowest = -104.f, kHighest = 89.f;  // beyond them the result is 0 or infinity
  V bounded = x < kLowest ? splat<float, W>(kLowest) : x;
  bounded = bounded > kHighest ? splat<float, W>(kHighest) : bounded;
  const V scaled = bounded * kLog2E;
#if defined(__AVX512F__)
  if constexpr (W == 16) {
    const V whole = (V)_mm512_roundscale_ps((__m512)scaled, _MM_FROUND_TO_NEAREST_INT);
    const V r = (bounded - whole * kLn2High) - whole * kLn2Low;
    return (V)_mm512_scalef_ps((__m512)exp_near_0<W>(r), (__m512)whole);
  }
#endif
  const V half = scaled < 0.f ? splat<float, W>(-0.5f) : splat<float, W>(0.5f);
  const N n = __builtin_convertvector(scaled + half, N);
  const V whole = __builtin_convertvector(n, V);
  const V r = (bounded - whole * kLn2High) - whole * kLn2Low;
  // In two factors, since 2^n alone leaves the range before the result does.
  const N low = n >> 1, high = n - low;
  const N low_bits = (low + 127) << 23, high_bits = (high + 127) << 23;
  V low_scale, high_scale;
  std::memcpy(&low_scale, &low_bits, sizeof(low_scale));
  std::memcpy(&high_scale, &high_bits, sizeof(high_scale));
  const V result = exp_near_0<W>(r) * low_scale * high_scale;
  return x != x ? x : result;
}

template <int W>
SMEX_INLINE Vector<double, W> exp_of(Vector<double, W> x) {
  Vector<double, W> result;
  for (int i = 0; i < W; ++i) result[i] = std::exp(x[i]);
  return result;
}

template <typename C>
SMEX_INLINE C exp_one(C x) {
  return exp_of<1>(Vector<C, 1>{x})[0];
}

}  // namespace smex::kernels::SMEX_ISA
