// tanh and erf on vectors. Included by kernels that are compiled per instruction set.
#pragma once

#include <cmath>

#include "kernels/cpu/exp.h"

namespace smex::kernels::SMEX_ISA {

/// tanh to about 3 ulp; NaN stays.
template <int W>
SMEX_INLINE Vector<float, W> tanh_of(Vector<float, W> x) {
  using V = Vector<float, W>;
  const V size = x < 0.f ? -x : x, square = x * x;
  const V decay = exp_of<W>(size * -2.f);
  const V far = (1.f - decay) / (1.f + decay);
  // Where that difference loses digits: the series about 0.
  auto p = splat<float, W>(-1382.f / 155925.f);
  p = p * square + 62.f / 2835.f;
  p = p * square - 17.f / 315.f;
  p = p * square + 2.f / 15.f;
  p = p * square - 1.f / 3.f;
  const V near = x * (p * square + 1.f);  // a product: -0 stays -0
  constexpr float kNear = 0.3f;
  return size < kNear ? near : (x < 0.f ? -far : far);
}

/// The error function to about 2e-7; NaN stays.
template <int W>
SMEX_INLINE Vector<float, W> erf_of(Vector<float, W> x) {
  using V = Vector<float, W>;
  const V size = x < 0.f ? -x : x, square = x * x;
  // Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26.
  const V t = 1.f / (1.f + 0.3275911f * size);
  auto p = splat<float, W>(1.061405429f);
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const V far = 1.f - p * t * exp_of<W>(-square);
  // Where that difference loses digits: the series about 0.
  auto q = splat<float, W>(-1.f / 1320.f);
  q = q * square + 1.f / 216.f;
  q = q * square - 1.f / 42.f;
  q = q * square + 1.f / 10.f;
  q = q * square - 1.f / 3.f;
  const V near = x * (q * square + 1.f) * static_cast<float>(M_2_SQRTPI);
  constexpr float kNear = 0.5f;
  return size < kNear ? near : (x < 0.f ? -far : far);
}

template <int W>
SMEX_INLINE Vector<double, W> tanh_of(Vector<double, W> x) {
  Vector<double, W> result;
  for (int i = 0; i < W; ++i) result[i] = std::tanh(x[i]);
  return result;
}

template <int W>
SMEX_INLINE Vector<double, W> erf_of(Vector<double, W> x) {
  Vector<double, W> result;
  for (int i = 0; i < W; ++i) result[i] = std::erf(x[i]);
  return result;
}

}  // namespace smex::kernels::SMEX_ISA
