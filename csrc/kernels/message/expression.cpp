#include "kernels/message/expression.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <stdexcept>

#include "kernels/message/names.h"

namespace smex::kernels {
namespace {

/// Tells 0 from -0.
bool is_constant(const Message& m, double value) {
  return m->op == MessageOp::kConstant && m->value == value &&
         std::signbit(m->value) == std::signbit(value);
}

Message make(MessageOp op, const Message& a, const Message& b) {
  auto node = std::make_shared<MessageNode>();
  node->op = op;
  node->a = a;
  node->b = b;
  return node;
}

struct Function {
  const char* name;
  MessageOp op;
  int arguments;
};

constexpr Function kFunctions[] = {
    {"abs", MessageOp::kAbs, 1},
    {"cos", MessageOp::kCos, 1},
    {"equal", MessageOp::kEqual, 2},
    {"erf", MessageOp::kErf, 1},
    {"exp", MessageOp::kExp, 1},
    {"expm1", MessageOp::kExpm1, 1},
    {"greater", MessageOp::kGreater, 2},
    {"leaky_relu", MessageOp::kLeakyRelu, 2},
    {"leaky_step", MessageOp::kLeakyStep, 2},
    {"less", MessageOp::kLess, 2},
    {"less_equal", MessageOp::kLessEqual, 2},
    {"log", MessageOp::kLog, 1},
    {"log1p", MessageOp::kLog1p, 1},
    {"maximum", MessageOp::kMaximum, 2},
    {"minimum", MessageOp::kMinimum, 2},
    {"part", MessageOp::kPart, 2},
    {"pow", MessageOp::kPow, 2},
    {"relu", MessageOp::kRelu, 1},
    {"select", MessageOp::kSelect, 2},
    {"sigmoid", MessageOp::kSigmoid, 1},
    {"sign", MessageOp::kSign, 1},
    {"sin", MessageOp::kSin, 1},
    {"slope", MessageOp::kSlope, 2},
    {"sqrt", MessageOp::kSqrt, 1},
    {"step", MessageOp::kStep, 1},
    {"straight_through", MessageOp::kStraightThrough, 2},
    {"sum_last", MessageOp::kSumLast, 1},
    {"tanh", MessageOp::kTanh, 1},
    {"weigh", MessageOp::kWeigh, 2},
};

constexpr Function kSigns[] = {
    {"add", MessageOp::kAdd, 2}, {"constant", MessageOp::kConstant, 1}, {"div", MessageOp::kDiv, 2},
    {"mul", MessageOp::kMul, 2}, {"neg", MessageOp::kNeg, 1},           {"sub", MessageOp::kSub, 2},
};

// ---- text ----

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  Message parse() {
    Message result = sum();
    skip_blanks();
    if (at_ < text_.size()) fail("the end");
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& expected) const {
    throw std::invalid_argument("message \"" + text_ + "\": expected " + expected +
                                " at position " + std::to_string(at_) + ", found \"" +
                                text_.substr(at_, 12) + "\"");
  }

  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool accept(char c) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail(std::string("'") + c + "'");
  }

  Message sum() {
    Message left = product();
    for (;;) {
      if (accept('+')) {
        left = call(MessageOp::kAdd, left, product());
      } else if (accept('-')) {
        left = call(MessageOp::kSub, left, product());
      } else {
        return left;
      }
    }
  }

  Message product() {
    Message left = factor();
    for (;;) {
      if (accept('*')) {
        left = call(MessageOp::kMul, left, factor());
      } else if (accept('/')) {
        left = call(MessageOp::kDiv, left, factor());
      } else {
        return left;
      }
    }
  }

  Message factor() {
    constexpr int kMaxDepth = 500;
    if (++depth_ > kMaxDepth) fail("fewer nested parentheses and signs");
    const Message result = nested_factor();
    --depth_;
    return result;
  }

  Message nested_factor() {
    if (accept('-')) return call(MessageOp::kNeg, factor());
    if (accept('(')) {
      Message inner = sum();
      expect(')');
      return inner;
    }
    skip_blanks();
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if ((c >= '0' && c <= '9') || c == '.') return constant(number());
    if (c >= 'a' && c <= 'z') return name();
    fail("an operand, a number or a function");
  }

  double number() {
    skip_blanks();
    double value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("a number");
    at_ += end - begin;
    return value;
  }

  Message name() {
    const size_t start = at_;
    const auto is_letter = [&](size_t i) {
      return i < text_.size() && ((text_[i] >= 'a' && text_[i] <= 'z') || text_[i] == '_');
    };
    const auto is_digit = [&](size_t i) {
      return i < text_.size() && text_[i] >= '0' && text_[i] <= '9';
    };
    while (is_letter(at_)) ++at_;
    size_t end = at_;
    while (is_letter(end) || is_digit(end)) ++end;
    const bool is_called = end < text_.size() && text_[end] == '(';
    if (is_digit(at_) && !is_called) return leaf(text_.substr(start, at_ - start), start);
    at_ = end;
    const std::string word = text_.substr(start, at_ - start);
    if (word == "inf" || word == "nan")  // what a constant may print as
      return constant(word == "inf" ? INFINITY : NAN);
    expect('(');
    return function(word, start);
  }

  Message leaf(const std::string& word, size_t start) {
    int index = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), index);
    at_ += end - begin;
    constexpr int kMaxIndex = 9999;
    if (error == std::errc() && index <= kMaxIndex) {
      if (word == "u") return operand(Target::kSource, index);
      if (word == "v") return operand(Target::kDestination, index);
      if (word == "e") return operand(Target::kEdge, index);
      if (word == "c") return operand(Target::kShared, index);
    }
    at_ = start;
    fail("an operand such as u0, v1, e2 or c3");
  }

  Message function(const std::string& word, size_t start) {
    Message first = sum();
    if (word == "dot") {
      expect(',');
      first = call(MessageOp::kSumLast, call(MessageOp::kMul, first, sum()));
      expect(')');
      return first;
    }
    for (const Function& known : kFunctions) {
      if (word != known.name) continue;
      Message second;
      if (known.arguments == 2) {
        expect(',');
        second = sum();
      }
      expect(')');
      if (takes_number(known.op) && second->op != MessageOp::kConstant) {
        at_ = start;
        fail("a number as the second argument");
      }
      return call(known.op, first, second);
    }
    at_ = start;
    fail("a known function");
  }

  const std::string& text_;
  size_t at_ = 0;
  int depth_ = 0;
};

// Binding strength, to print no more parentheses than are needed.
int strength(MessageOp op) {
  switch (op) {
    case MessageOp::kAdd:
    case MessageOp::kSub:
      return 1;
    case MessageOp::kMul:
    case MessageOp::kDiv:
      return 2;
    case MessageOp::kNeg:
      return 3;
    default:
      return 4;
  }
}

std::string number_text(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  return std::string(buffer, end);
}

std::string print(const Message& m, int outer) {
  std::string text;
  int own = strength(m->op);
  switch (m->op) {
    case MessageOp::kOperand: {
      constexpr char kLetters[] = {'u', 'v', 'e', 'c'};
      return kLetters[static_cast<int>(m->target)] + std::to_string(m->operand);
    }
    case MessageOp::kConstant:
      text = number_text(m->value);
      own = text[0] == '-' ? 3 : 4;
      break;
    case MessageOp::kAdd:
    case MessageOp::kSub:
    case MessageOp::kMul:
    case MessageOp::kDiv: {
      constexpr const char* kSigns[] = {" + ", " - ", " * ", " / "};
      const int sign = static_cast<int>(m->op) - static_cast<int>(MessageOp::kAdd);
      text = print(m->a, own) + kSigns[sign] + print(m->b, own + 1);
      break;
    }
    case MessageOp::kNeg:
      text = "-" + print(m->a, own);
      break;
    default:
      if (m->op == MessageOp::kSumLast && m->a->op == MessageOp::kMul)
        return "dot(" + print(m->a->a, 0) + ", " + print(m->a->b, 0) + ")";
      for (const Function& function : kFunctions) {
        if (function.op != m->op) continue;
        text = std::string(function.name) + "(" + print(m->a, 0);
        if (m->b) text += ", " + print(m->b, 0);
        text += ")";
      }
  }
  return own < outer ? "(" + text + ")" : text;
}

// ---- gradients ----

/// True where two expressions are written alike.
bool is_same(const Message& a, const Message& b) {
  if (a == b) return true;
  if (!a || !b || a->op != b->op) return false;
  if (a->op == MessageOp::kOperand) return a->target == b->target && a->operand == b->operand;
  if (a->op == MessageOp::kConstant) return is_constant(a, b->value);
  return is_same(a->a, b->a) && is_same(a->b, b->b);
}

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

  /// Hands the gradient of a node on to its arguments. Slopes that choose are no factors: 0 times
  /// infinity is no number, as the gradients of functions further down may be infinite.
  void leave(const Message& m, const Message& grad) {
    const Message &a = m->a, &b = m->b;
    const int64_t width = last_of(m);
    const auto times = [&](const Message& factor) { return call(MessageOp::kMul, grad, factor); };
    const auto to_a = [&](const Message& part) { add(a, part, width); };
    const auto to_b = [&](const Message& part) { add(b, part, width); };
    switch (m->op) {
      case MessageOp::kOperand:
      case MessageOp::kConstant:
      case MessageOp::kGreater:
      case MessageOp::kLess:
      case MessageOp::kLessEqual:
      case MessageOp::kEqual:
      case MessageOp::kLeakyStep:
      case MessageOp::kSign:
      case MessageOp::kStep:
        return;
      case MessageOp::kSelect:
      case MessageOp::kPart:
        return to_b(call(MessageOp::kSelect, a, grad));
      case MessageOp::kWeigh:
        to_a(call(MessageOp::kSelect, a, times(b)));
        return to_b(call(MessageOp::kWeigh, a, grad));
      case MessageOp::kSlope:
        return to_b(times(a));
      case MessageOp::kStraightThrough:
        return to_b(grad);
      case MessageOp::kAdd:
        to_a(grad);
        return to_b(grad);
      case MessageOp::kSub:
        to_a(grad);
        return to_b(call(MessageOp::kNeg, grad));
      case MessageOp::kMul:
        to_a(times(b));
        return to_b(times(a));
      case MessageOp::kDiv:
        to_a(call(MessageOp::kDiv, grad, b));
        return to_b(call(MessageOp::kNeg, times(call(MessageOp::kDiv, m, b))));
      case MessageOp::kMaximum:
        to_a(call(MessageOp::kWeigh, call(MessageOp::kGreater, a, b), grad));
        return to_b(call(MessageOp::kWeigh, call(MessageOp::kGreater, b, a), grad));
      case MessageOp::kMinimum:
        to_a(call(MessageOp::kWeigh, call(MessageOp::kGreater, b, a), grad));
        return to_b(call(MessageOp::kWeigh, call(MessageOp::kGreater, a, b), grad));
      case MessageOp::kPow: {
        if (b->value == 0) return;  // a constant; the formula below is 0 times infinity at 0
        const Message power = call(MessageOp::kPow, a, constant(b->value - 1));
        return to_a(times(call(MessageOp::kMul, power, b)));
      }
      case MessageOp::kLeakyRelu:
        return to_a(times(call(MessageOp::kLeakyStep, a, b)));
      case MessageOp::kNeg:
        return to_a(call(MessageOp::kNeg, grad));
      case MessageOp::kAbs:
        return to_a(times(call(MessageOp::kSign, a)));
      case MessageOp::kRelu:
        return to_a(call(MessageOp::kSelect, call(MessageOp::kStep, a), grad));
      case MessageOp::kSqrt:
        return to_a(call(MessageOp::kDiv, call(MessageOp::kMul, grad, constant(0.5)), m));
      case MessageOp::kExp:
        return to_a(times(m));
      case MessageOp::kExpm1:
        return to_a(times(call(MessageOp::kAdd, m, constant(1))));
      case MessageOp::kLog:
        return to_a(call(MessageOp::kDiv, grad, a));
      case MessageOp::kLog1p:
        return to_a(call(MessageOp::kDiv, grad, call(MessageOp::kAdd, a, constant(1))));
      case MessageOp::kSigmoid:
        return to_a(times(call(MessageOp::kMul, m, call(MessageOp::kSub, constant(1), m))));
      case MessageOp::kTanh:
        return to_a(times(call(MessageOp::kSub, constant(1), call(MessageOp::kMul, m, m))));
      case MessageOp::kErf: {
        const Message bell =
            call(MessageOp::kExp, call(MessageOp::kNeg, call(MessageOp::kMul, a, a)));
        return to_a(times(call(MessageOp::kMul, bell, constant(M_2_SQRTPI))));
      }
      case MessageOp::kSin:
        return to_a(times(call(MessageOp::kCos, a)));
      case MessageOp::kCos:
        return to_a(times(call(MessageOp::kNeg, call(MessageOp::kSin, a))));
      case MessageOp::kSumLast:
        return to_a(grad);
    }
  }

  Target target_;
  int index_;
  const std::vector<int64_t>& last_sizes_;
  std::vector<Node> nodes_;
};

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

Message parse_message(const std::string& text) { return Parser(text).parse(); }

bool find_op(const std::string& name, MessageOp& op, int& arguments) {
  const auto found = [&](const Function& function) {
    if (name != function.name || function.op == MessageOp::kSumLast) return false;
    op = function.op;
    arguments = function.arguments;
    return true;
  };
  return std::any_of(std::begin(kSigns), std::end(kSigns), found) ||
         std::any_of(std::begin(kFunctions), std::end(kFunctions), found);
}

std::string to_string(const Message& message) { return print(message, 0); }

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

Message derivative(const Message& message, Target target, int index, const Message& grad,
                   const std::vector<int64_t>& last_sizes) {
  return Derivative(target, index, last_sizes).of(message, grad);
}

}  // namespace smex::kernels
