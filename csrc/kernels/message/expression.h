#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace smex::kernels {

/// Whose feature row an operand of a message is: the source's, the destination's, the edge's own,
/// or one that all edges share (a parameter).
enum class Target : uint8_t { kSource, kDestination, kEdge, kShared };

/// What a node of an expression computes from the values of its arguments `a` and `b`.
enum class MessageOp : uint8_t {
  kOperand,
  kConstant,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMaximum,
  kMinimum,
  kPow,        ///< `a` to the power of the constant `b`
  kLeakyRelu,  ///< `a` where `a > 0`, else `a` times the constant `b`
  kLeakyStep,  ///< 1 where `a > 0`, else the constant `b`: the slope of `leaky_relu`
  kGreater,    ///< 0 where `a < b`, 1/2 where equal, else 1: the slope of `maximum`
  kLess,       ///< 1 where `a < b`, else 0; likewise the next two
  kLessEqual,
  kEqual,
  kSelect,           ///< `b` where `a` is not 0, else 0
  kPart,             ///< `b` where `a` is not 0, else -0, which changes nothing it is added to
  kWeigh,            ///< `a * b`, but 0 where `a` is 0, also of an infinite `b`
  kSlope,            ///< `b`, whose gradient is multiplied by `a`, which broadcasts to it
  kStraightThrough,  ///< `a`, with the gradient of `b`, which has the same shape
  kNeg,
  kAbs,
  kSign,
  kStep,  ///< 0 where `a <= 0`, else 1: the slope of `relu`
  kRelu,
  kSqrt,
  kExp,
  kExpm1,
  kLog,
  kLog1p,
  kSigmoid,
  kTanh,
  kErf,
  kSin,
  kCos,
  kSumLast,  ///< the sum over the last feature dimension, kept as size 1
};

class MessageNode;

/// A message as a formula over feature rows, immutable and shared (thesis §4.6.2).
///
/// As text: the operands `u0`, `v1`, `e2`, `c3` (target and index), numbers, `+ - * /`, unary `-`,
/// `abs cos erf exp expm1 log log1p relu sigmoid sign sin sqrt step tanh sum_last`,
/// `maximum(a, b)`, `minimum(a, b)`, `less(a, b)`, `less_equal(a, b)`, `equal(a, b)`,
/// `greater(a, b)`, `select(condition, a)`, `part(condition, a)`, `weigh(slope, a)`,
/// `slope(factor, a)`, `straight_through(a, b)`, `leaky_relu(a, number)`, `leaky_step(a, number)`,
/// `pow(a, number)` and `dot(a, b)`, which is `sum_last(a * b)`. Features broadcast as in NumPy.
/// What is chosen exactly is `part(c, a) + part(1 - c, b)`; a function with a derivative of its own
/// is `straight_through(value, slope(derivative, a))`.
using Message = std::shared_ptr<const MessageNode>;

class MessageNode {
 public:
  MessageOp op = MessageOp::kConstant;
  Message a, b;      ///< arguments; null where the op has fewer
  double value = 0;  ///< of a constant
  Target target = Target::kSource;
  int operand = 0;  ///< index of an operand
};

/// Whether the second argument of `op` has to be a constant.
constexpr bool takes_number(MessageOp op) {
  return op == MessageOp::kPow || op == MessageOp::kLeakyRelu || op == MessageOp::kLeakyStep;
}

Message operand(Target target, int index);
Message constant(double value);

/// A call of `op`, simplified where a constant allows it (`x * 1`, `x + 0`, `2 * 3` ...).
Message call(MessageOp op, const Message& a, const Message& b = nullptr);

/// Reads the text form; throws std::invalid_argument that shows where it went wrong.
Message parse_message(const std::string& text);

/// The text form, which reads back as the same expression.
std::string to_string(const Message& message);

/// One more than the largest operand index.
int num_operands(const Message& message);

/// The same message on the reversed graph: sources and destinations change places.
Message reversed(const Message& message);

/// True where the operand of that target and index occurs.
bool depends_on(const Message& message, Target target, int index);

/// The operands that occur, each once, in order of first occurrence.
std::vector<Message> operands_of(const Message& message);

/// The gradient with respect to operand `target index`, given that of the message.
///
/// As torch's: each node's gradients are added up before they pass through it, so that 0 and
/// infinities meet where they meet there; nodes that are written alike count as one.
/// Before it is summed over the dimensions but the last along which the operand was broadcast.
/// `last_sizes` are the last feature dimensions of all operands, those in `grad` included; where
/// `grad` has 1 and the message more, it belongs to each element of the message.
Message derivative(const Message& message, Target target, int index, const Message& grad,
                   const std::vector<int64_t>& last_sizes);

}  // namespace smex::kernels
