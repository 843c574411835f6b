#pragma once

#include <cstdint>

namespace smex::kernels {

/// The upper half of a float; laid out as torch's BFloat16.
struct BFloat16 {
  uint16_t bits;
};

/// An IEEE half; laid out as torch's Half.
struct Half {
  uint16_t bits;
};

/// The type in which sums of T are accumulated.
template <typename T>
struct Accumulate {
  using type = float;
};
template <>
struct Accumulate<double> {
  using type = double;
};
template <typename T>
using accumulate_t = typename Accumulate<T>::type;

}  // namespace smex::kernels
