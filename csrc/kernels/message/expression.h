#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/message/operations.h"

namespace smex::kernels {

/// Whose feature row an operand of a message is: the source's, the destination's, the edge's own,
/// or one that all edges share (a parameter). In an element-wise program all are its values.
enum class Target : uint8_t { kSource, kDestination, kEdge, kShared, kValue };

class MessageNode;

/// A message as a formula over feature rows, immutable and shared (thesis §4.6.2).
///
/// As text: the operands `u0`, `v1`, `e2`, `c3` (target and index), numbers, `+ - * /`, unary `-`,
/// the other operations of operations.def as functions, such as `exp(a)`, `maximum(a, b)` and
/// `leaky_relu(a, number)`, and `dot(a, b)`, which is `sum_last(a * b)`. Features broadcast as in
/// NumPy.
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

Message operand(Target target, int index);
Message constant(double value);

/// Whether it is the constant `value`; 0 is not -0.
bool is_constant(const Message& message, double value);

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
