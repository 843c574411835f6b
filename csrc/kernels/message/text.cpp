#include "kernels/message/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <stdexcept>

#include "kernels/message/operation_table.h"

namespace smex::kernels {
namespace {

constexpr char kLetters[] = {'u', 'v', 'e', 'c', 'x'};  // in the order of Target

/// Reads formulas: one is a message, several are a program, whose operands are values.
class Parser {
 public:
  Parser(const std::string& text, bool is_program) : text_(text), is_program_(is_program) {}

  Message message() {
    Message result = sum();
    if (!is_at_end()) fail("the end");
    return result;
  }

  PointwiseText program() {
    PointwiseText result;
    do {
      result.formulas.push_back(sum());
    } while (accept(';'));
    if (!accept('>')) fail("';' and a formula, or '>' and the results");
    do {
      const Message value = factor();
      if (value->op != MessageOp::kOperand) fail("the results, such as x2 x3");
      result.results.push_back(value->operand);
      result.columns.push_back(accept(':'));
      if (result.columns.back()) expect('1');
      result.conditions.push_back(accept('?'));
    } while (!is_at_end());
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& expected) const {
    throw std::invalid_argument((is_program_ ? "program \"" : "message \"") + text_ +
                                "\": expected " + expected + " at position " + std::to_string(at_) +
                                ", found \"" + text_.substr(at_, 12) + "\"");
  }

  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool is_at_end() {
    skip_blanks();
    return at_ == text_.size();
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
    const auto letter = std::find(std::begin(kLetters), std::end(kLetters), word[0]);
    const auto target = static_cast<Target>(letter - std::begin(kLetters));
    const bool is_known = word.size() == 1 && letter != std::end(kLetters);
    if (error == std::errc() && index <= kMaxIndex && is_known &&
        is_program_ == (target == Target::kValue))
      return operand(target, index);
    at_ = start;
    fail(is_program_ ? "a value such as x0" : "an operand such as u0, v1, e2 or c3");
  }

  Message function(const std::string& word, size_t start) {
    Message first = sum();
    if (word == "dot") {
      expect(',');
      first = call(MessageOp::kSumLast, call(MessageOp::kMul, first, sum()));
      expect(')');
      return first;
    }
    const Operation* const known = find_operation(word);
    if (known && !*known->sign && (is_program_ || known->in_messages))
      return arguments(*known, first, start);
    at_ = start;
    fail("a known function");
  }

  /// The rest of a call.
  Message arguments(const Operation& known, const Message& first, size_t start) {
    Message second;
    if (known.arguments == 2) {
      expect(',');
      second = sum();
    }
    expect(')');
    if (known.takes_number && second->op != MessageOp::kConstant) {
      at_ = start;
      fail("a number as the second argument");
    }
    return call(known.op, first, second);
  }

  const std::string& text_;
  bool is_program_;
  size_t at_ = 0;
  int depth_ = 0;
};

constexpr int kStrengthOfMinus = 3;

/// Binding strength, to print no more parentheses than are needed.
int strength(MessageOp op) {
  switch (op) {
    case MessageOp::kAdd:
    case MessageOp::kSub:
      return 1;
    case MessageOp::kMul:
    case MessageOp::kDiv:
      return 2;
    case MessageOp::kNeg:
      return kStrengthOfMinus;
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
  if (m->op == MessageOp::kOperand)
    return kLetters[static_cast<int>(m->target)] + std::to_string(m->operand);
  std::string text;
  int own = strength(m->op);
  if (m->op == MessageOp::kConstant) {
    text = number_text(m->value);
    if (text[0] == '-') own = kStrengthOfMinus;
  } else if (const Operation& known = operation_of(m->op); !*known.sign) {
    const bool is_dot = m->op == MessageOp::kSumLast && m->a->op == MessageOp::kMul;
    const Message &a = is_dot ? m->a->a : m->a, &b = is_dot ? m->a->b : m->b;
    text = std::string(is_dot ? "dot" : known.name) + "(" + print(a, 0);
    text += (b ? ", " + print(b, 0) : "") + ")";
  } else if (known.arguments == 1) {
    text = known.sign + print(m->a, own);
  } else {
    text = print(m->a, own) + " " + known.sign + " " + print(m->b, own + 1);
  }
  return own < outer ? "(" + text + ")" : text;
}

}  // namespace

Message parse_message(const std::string& text) {
  return Parser(text, /*is_program=*/false).message();
}

PointwiseText parse_program(const std::string& text) {
  return Parser(text, /*is_program=*/true).program();
}

std::string to_string(const Message& message) { return print(message, 0); }

}  // namespace smex::kernels
