#include "kernels/message/expression.h"

#include <algorithm>
#include <cmath>

namespace smex::kernels {
namespace {

Message make(MessageOp op, const Message& a, const Message& b) {
  auto node = std::make_shared<MessageNode>();
  node->op = op;
  node->a = a;
  node->b = b;
  return node;
}

template <typename Visit>
void for_each_node(const Message& m, const Visit& visit) {
  visit(m);
  if (m->a) for_each_node(m->a, visit);
  if (m->b) for_each_node(m->b, visit);
}

}  // namespace

Message operand(Target target, int index) {
  auto node = std::make_shared<MessageNode>();
  node->op = MessageOp::kOperand;
  node->target = target;
  node->operand = index;
  return node;
}

Message constant(double value) {
  auto node = std::make_shared<MessageNode>();
  node->value = value;
  return node;
}

bool is_constant(const Message& message, double value) {
  return message->op == MessageOp::kConstant && message->value == value &&
         std::signbit(message->value) == std::signbit(value);
}

Message call(MessageOp op, const Message& a, const Message& b) {
  const bool constants = a->op == MessageOp::kConstant && b && b->op == MessageOp::kConstant;
  switch (op) {
    case MessageOp::kAdd:
      if (constants) return constant(a->value + b->value);
      if (is_constant(a, -0.0)) return b;  // 0 would make 0 of -0
      if (is_constant(b, -0.0)) return a;
      if (b->op == MessageOp::kNeg) return make(MessageOp::kSub, a, b->a);
      break;
    case MessageOp::kSub:
      if (constants) return constant(a->value - b->value);
      if (is_constant(b, 0)) return a;
      break;
    case MessageOp::kMul:
      if (constants) return constant(a->value * b->value);
      if (is_constant(a, 1)) return b;
      if (is_constant(b, 1)) return a;
      break;
    case MessageOp::kDiv:
      if (constants) return constant(a->value / b->value);
      if (is_constant(b, 1)) return a;
      break;
    case MessageOp::kPow:
      if (is_constant(b, 1)) return a;
      if (is_constant(b, 0.5)) return make(MessageOp::kSqrt, a, nullptr);
      break;
    case MessageOp::kNeg:
      if (a->op == MessageOp::kConstant) return constant(-a->value);
      if (a->op == MessageOp::kNeg) return a->a;
      break;
    default:
      break;
  }
  return make(op, a, b);
}

int num_operands(const Message& message) {
  int count = 0;
  for_each_node(message, [&](const Message& m) {
    if (m->op == MessageOp::kOperand) count = std::max(count, m->operand + 1);
  });
  return count;
}

Message reversed(const Message& message) {
  if (message->op == MessageOp::kOperand) {
    if (message->target == Target::kEdge || message->target == Target::kShared) return message;
    return operand(message->target == Target::kSource ? Target::kDestination : Target::kSource,
                   message->operand);
  }
  if (!message->a) return message;
  return make(message->op, reversed(message->a), message->b ? reversed(message->b) : nullptr);
}

bool depends_on(const Message& message, Target target, int index) {
  if (message->op == MessageOp::kOperand)
    return message->target == target && message->operand == index;
  return (message->a && depends_on(message->a, target, index)) ||
         (message->b && depends_on(message->b, target, index));
}

std::vector<Message> operands_of(const Message& message) {
  std::vector<Message> found;
  for_each_node(message, [&](const Message& m) {
    if (m->op != MessageOp::kOperand) return;
    for (const Message& known : found)
      if (known->target == m->target && known->operand == m->operand) return;
    found.push_back(m);
  });
  return found;
}

}  // namespace smex::kernels
