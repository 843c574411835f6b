// What one operation of a message does to one number; the CPU's loops over many are in
// interpreter.h.
#pragma once

#include <cmath>

#include "kernels/host_device.h"
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

/// `op(x, y)`; `value` is that of kConstant and of what `takes_number`. Not for kOperand and
/// kSumLast, which need more than a number.
template <typename C>
SMEX_HOST_DEVICE C apply(MessageOp op, C x, C y, C value) {
  switch (op) {
    case MessageOp::kConstant:
      return value;
    case MessageOp::kAdd:
      return x + y;
    case MessageOp::kSub:
      return x - y;
    case MessageOp::kMul:
      return x * y;
    case MessageOp::kDiv:
      return x / y;
    case MessageOp::kMaximum:  // a NaN on either side stays
      return x > y || x != x ? x : y;
    case MessageOp::kMinimum:
      return x < y || x != x ? x : y;
    case MessageOp::kGreater:
      return x < y ? C(0) : (x == y ? C(0.5) : C(1));
    case MessageOp::kLess:
      return x < y ? C(1) : C(0);
    case MessageOp::kLessEqual:
      return x <= y ? C(1) : C(0);
    case MessageOp::kEqual:
      return x == y ? C(1) : C(0);
    case MessageOp::kSelect:
      return x != C(0) ? y : C(0);
    case MessageOp::kPart:
      return x != C(0) ? y : -C(0);
    case MessageOp::kWeigh:
      return x != C(0) ? x * y : C(0);
    case MessageOp::kSlope:
      return y;
    case MessageOp::kPow:
      return power_of(x, value);
    case MessageOp::kLeakyRelu:
      return x > C(0) ? x : x * value;
    case MessageOp::kLeakyStep:
      return x > C(0) ? C(1) : value;
    case MessageOp::kNeg:
      return -x;
    case MessageOp::kAbs:
      return x < C(0) ? -x : x + C(0);
    case MessageOp::kSign:
      return x > C(0) ? C(1) : (x < C(0) ? C(-1) : C(0));
    case MessageOp::kStep:
      return x <= C(0) ? C(0) : C(1);
    case MessageOp::kRelu:
      return x < C(0) ? C(0) : x;
    case MessageOp::kSqrt:
      return std::sqrt(x);
    case MessageOp::kExp:
      return std::exp(x);
    case MessageOp::kExpm1:
      return std::expm1(x);
    case MessageOp::kLog:
      return std::log(x);
    case MessageOp::kLog1p:
      return std::log1p(x);
    case MessageOp::kSigmoid:
      return C(1) / (C(1) + std::exp(-x));
    case MessageOp::kTanh:
      return std::tanh(x);
    case MessageOp::kErf:
      return std::erf(x);
    case MessageOp::kSin:
      return std::sin(x);
    case MessageOp::kCos:
      return std::cos(x);
    default:
      return x;
  }
}

}  // namespace smex::kernels
