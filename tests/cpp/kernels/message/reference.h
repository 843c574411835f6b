// What a message means: plain loops over doubles, one edge at a time, NumPy's broadcasting by
// index.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <vector>

#include "kernels/message/expression.h"
#include "kernels/message/program.h"

namespace smex::kernels::reference {

struct Array {
  FeatureShape shape;
  std::vector<double> data;
};

inline int64_t size_of(const FeatureShape& shape) {
  int64_t size = 1;
  for (const int64_t n : shape) size *= n;
  return size;
}

/// The element of `part` that stands at flat index `i` of the shape `whole`.
inline int64_t source_index(int64_t i, const FeatureShape& whole, const FeatureShape& part) {
  int64_t index = 0, stride = 1;
  for (size_t d = 0; d < whole.size(); ++d) {
    const int64_t size = whole[whole.size() - 1 - d], at = i % size;
    i /= size;
    if (d >= part.size()) continue;
    const int64_t own = part[part.size() - 1 - d];
    if (own != 1) index += at * stride;
    stride *= own;
  }
  return index;
}

inline FeatureShape common_shape(const FeatureShape& a, const FeatureShape& b) {
  FeatureShape whole(std::max(a.size(), b.size()), 1);
  for (const FeatureShape* shape : {&a, &b})
    for (size_t d = 0; d < shape->size(); ++d) {
      int64_t& size = whole[whole.size() - shape->size() + d];
      if ((*shape)[d] != 1) size = (*shape)[d];
    }
  return whole;
}

inline Array expanded(const Array& x, const FeatureShape& whole) {
  Array result{whole, std::vector<double>(size_of(whole))};
  for (size_t i = 0; i < result.data.size(); ++i)
    result.data[i] = x.data[source_index(i, whole, x.shape)];
  return result;
}

/// Sums the dimensions along which `shape` would be repeated to become x's.
inline Array summed_to(const Array& x, const FeatureShape& shape) {
  Array result{shape, std::vector<double>(size_of(shape), 0.0)};
  for (size_t i = 0; i < x.data.size(); ++i)
    result.data[source_index(i, x.shape, shape)] += x.data[i];
  return result;
}

inline double combine(MessageOp op, double x, double y) {
  switch (op) {
    case MessageOp::kAdd:
      return x + y;
    case MessageOp::kSub:
      return x - y;
    case MessageOp::kMul:
      return x * y;
    case MessageOp::kDiv:
      return x / y;
    case MessageOp::kMaximum:
      return std::isnan(x) || std::isnan(y) ? NAN : std::max(x, y);
    case MessageOp::kMinimum:
      return std::isnan(x) || std::isnan(y) ? NAN : std::min(x, y);
    case MessageOp::kPow:
      return std::pow(x, y);
    case MessageOp::kLeakyRelu:
      return x > 0 ? x : x * y;
    case MessageOp::kLess:
      return x < y;
    case MessageOp::kLessEqual:
      return x <= y;
    case MessageOp::kEqual:
      return x == y;
    case MessageOp::kSelect:
      return x != 0 ? y : 0;
    case MessageOp::kPart:
      return x != 0 ? y : -0.0;
    case MessageOp::kWeigh:
      return x != 0 ? x * y : 0;
    case MessageOp::kSlope:
      return y;
    case MessageOp::kStraightThrough:
      return x;
    case MessageOp::kLeakyStep:
      return x > 0 ? 1 : y;
    default:  // kGreater
      return x < y ? 0 : x == y ? 0.5 : 1;
  }
}

inline double apply(MessageOp op, double x) {
  switch (op) {
    case MessageOp::kNeg:
      return -x;
    case MessageOp::kAbs:
      return std::abs(x);
    case MessageOp::kSign:
      return x > 0 ? 1 : x < 0 ? -1 : 0;
    case MessageOp::kStep:
      return x <= 0 ? 0 : 1;
    case MessageOp::kRelu:
      return std::isnan(x) ? x : std::max(x, 0.0);
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
    case MessageOp::kErf:
      return std::erf(x);
    case MessageOp::kSin:
      return std::sin(x);
    case MessageOp::kCos:
      return std::cos(x);
    case MessageOp::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case MessageOp::kSoftplus:
      return x > 20 ? x : std::log1p(std::exp(x));
    case MessageOp::kTanh:
      return std::tanh(x);
    default:
      throw std::logic_error("reference.h has no value of this operation");
  }
}

/// The value of a message; `operand(m)` gives what a leaf reads.
inline Array evaluate(const Message& m, const std::function<Array(const MessageNode&)>& operand) {
  if (m->op == MessageOp::kOperand) return operand(*m);
  if (m->op == MessageOp::kConstant) return {{}, {m->value}};
  Array a = evaluate(m->a, operand);
  if (m->b) {
    const Array b = evaluate(m->b, operand);
    const FeatureShape whole = common_shape(a.shape, b.shape);
    a = expanded(a, whole);
    for (size_t i = 0; i < a.data.size(); ++i)
      a.data[i] = combine(m->op, a.data[i], b.data[source_index(i, whole, b.shape)]);
    return a;
  }
  if (m->op == MessageOp::kSumLast) {
    FeatureShape shape = a.shape;
    if (!shape.empty()) shape.back() = 1;
    return summed_to(a, shape);
  }
  for (double& x : a.data) x = apply(m->op, x);
  return a;
}

}  // namespace smex::kernels::reference
