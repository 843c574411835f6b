// What one operation of a message does to one number; the CPU's loops over many are in
// interpreter.h.
#pragma once

#include <cmath>

#include "host_device.h"
#include "kernels/message/expression.h"

namespace smex::kernels {

/// `x` to the power of a number, with torch's short ways, which differ from `std::pow` at -0 and at
/// negative infinity.
template <typename C>
SMEX_HOST_DEVICE C power_of(C x, C exponent) {
  if (exponent == C(2)) return x * x;
  if (exponent == C(3)) return x * x * x;
  if (exponent == C(-1)) return C(1) / x;
  if (exponent == C(-2)) return C(1) / (x * x);
  if (exponent == C(0.5)) return std::sqrt(x);
  if (exponent == C(-0.5)) return C(1) / std::sqrt(x);
  return std::pow(x, exponent);
}

/// The functions of one number that operations.def calls where its values are written for vectors
/// too.
struct NumberMath {
  template <typename C>
  static SMEX_HOST_DEVICE C exp(C x) {
    return std::exp(x);
  }
  template <typename C>
  static SMEX_HOST_DEVICE C log1p(C x) {
    return std::log1p(x);
  }
  template <typename C>
  static SMEX_HOST_DEVICE C tanh(C x) {
    return std::tanh(x);
  }
  template <typename C>
  static SMEX_HOST_DEVICE C erf(C x) {
    return std::erf(x);
  }
};

/// `op(x, y)`; `value` is that of kConstant and of what `takes_number`. Not for kOperand,
/// kSumLast and kMaxLast, which need more than a number.
template <typename C>
SMEX_HOST_DEVICE C apply(MessageOp op, C x, C y, C value) {
  using Math = NumberMath;
  switch (op) {
    case MessageOp::kConstant:
      return value;
#define SMEX_OP(id, name, form, result, to_a, to_b, torch) \
  case MessageOp::id:                                      \
    return result;
#include "kernels/message/operations.def"
    default:
      return x;
  }
}

}  // namespace smex::kernels
