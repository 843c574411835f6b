#include <algorithm>
#include <cmath>

#include "kernels/message/expression.h"

namespace smex::kernels {
namespace {

/// True where two expressions are written alike.
bool is_same(const Message& a, const Message& b) {
  if (a == b) return true;
  if (!a || !b || a->op != b->op) return false;
  if (a->op == MessageOp::kOperand) return a->target == b->target && a->operand == b->operand;
  if (a->op == MessageOp::kConstant) return is_constant(a, b->value);
  return is_same(a->a, b->a) && is_same(a->b, b->b);
}

/// A message that gradients in operations.def are written with.
struct Formula {
  Message message;

  explicit Formula(Message message) : message(std::move(message)) {}
  Formula(double value) : message(constant(value)) {}

  bool is(double value) const {
    return message->op == MessageOp::kConstant && message->value == value;
  }
};

// Every operation by its name, the signs by themselves too.
#define SMEX_CALL_unary(id, name)                   \
  [[maybe_unused]] Formula name(const Formula& a) { \
    return Formula(call(MessageOp::id, a.message)); \
  }
#define SMEX_CALL_lanes SMEX_CALL_unary
#define SMEX_CALL_max SMEX_CALL_unary
#define SMEX_CALL_sum SMEX_CALL_unary
#define SMEX_CALL_binary(id, name)                                    \
  [[maybe_unused]] Formula name(const Formula& a, const Formula& b) { \
    return Formula(call(MessageOp::id, a.message, b.message));        \
  }
#define SMEX_CALL_number SMEX_CALL_binary
#define SMEX_OP(id, name, form, ...) SMEX_CALL_##form(id, name)
#include "kernels/message/operations.def"

Formula operator+(const Formula& a, const Formula& b) { return add(a, b); }
Formula operator-(const Formula& a, const Formula& b) { return sub(a, b); }
Formula operator*(const Formula& a, const Formula& b) { return mul(a, b); }
Formula operator/(const Formula& a, const Formula& b) { return div(a, b); }
Formula operator-(const Formula& a) { return neg(a); }

/// Goes from the result to the operands; a node is left when all of its gradient has arrived.
class Derivative {
 public:
  Derivative(Target target, int index, const std::vector<int64_t>& last_sizes)
      : target_(target), index_(index), last_sizes_(last_sizes) {}

  Message of(const Message& message, const Message& grad) {
    collect(message);
    add(message, grad, last_of(message));
    Message found;
    for (size_t i = nodes_.size(); i-- > 0;) {
      const Node node = nodes_[i];
      if (!node.grad) continue;
      if (node.message->op == MessageOp::kOperand) {
        found = node.grad;
      } else {
        leave(node.message, node.grad);
      }
    }
    return found ? found : constant(0);
  }

 private:
  struct Node {
    Message message;
    Message grad;  ///< what has arrived; null where nothing has
  };

  /// The size of the last feature dimension.
  int64_t last_of(const Message& m) const {
    switch (m->op) {
      case MessageOp::kOperand:
        return last_sizes_.at(m->operand);
      case MessageOp::kConstant:
      case MessageOp::kSumLast:
        return 1;
      default:
        return std::max(last_of(m->a), m->b ? last_of(m->b) : 1);
    }
  }

  Node* node_of(const Message& m) {
    for (Node& node : nodes_)
      if (is_same(node.message, m)) return &node;
    return nullptr;
  }

  /// Lists the nodes that depend on the operand, arguments before what is computed of them.
  bool collect(const Message& m) {
    if (node_of(m)) return true;
    const bool is_read =
        m->op == MessageOp::kOperand && m->target == target_ && m->operand == index_;
    const bool a = m->a && collect(m->a), b = m->b && collect(m->b);
    if (is_read || a || b) nodes_.push_back({m, nullptr});
    return is_read || a || b;
  }

  /// Adds to the gradient of `m` that of the `width` elements which it was broadcast to along the
  /// last dimension.
  void add(const Message& m, const Message& grad, int64_t width) {
    Node* const node = node_of(m);
    if (!node) return;
    const Message part = last_of(m) == 1 ? sum_over(grad, width) : grad;
    node->grad = node->grad ? call(MessageOp::kAdd, node->grad, part) : part;
  }

  /// The sum of `width` elements of a gradient, which may be the same for all of them.
  Message sum_over(const Message& grad, int64_t width) const {
    if (width == 1) return grad;
    if (last_of(grad) > 1) return call(MessageOp::kSumLast, grad);
    return call(MessageOp::kMul, grad, constant(static_cast<double>(width)));
  }

  /// Hands the gradient of a node on to its arguments.
  void leave(const Message& message, const Message& gradient) {
    const int64_t width = last_of(message);
    const auto to = [&](const Message& argument, const Formula& part) {
      if (part.message) add(argument, part.message, width);
    };
    const Formula a(message->a), b(message->b), m(message), grad(gradient), none{Message()};
    switch (message->op) {
      case MessageOp::kOperand:
      case MessageOp::kConstant:
        return;
#define SMEX_OP(id, name, form, value, to_a, to_b, torch) \
  case MessageOp::id:                                     \
    to(message->a, to_a);                                 \
    to(message->b, to_b);                                 \
    return;
#include "kernels/message/operations.def"
    }
  }

  Target target_;
  int index_;
  const std::vector<int64_t>& last_sizes_;
  std::vector<Node> nodes_;
};

}  // namespace

Message derivative(const Message& message, Target target, int index, const Message& grad,
                   const std::vector<int64_t>& last_sizes) {
  return Derivative(target, index, last_sizes).of(message, grad);
}

}  // namespace smex::kernels
