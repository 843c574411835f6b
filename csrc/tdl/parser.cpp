#include <cctype>
#include <cstdlib>
#include <unordered_map>

#include "ir/error.h"
#include "tdl/expr.h"
#include "tdl/text.h"

namespace smex::tdl {
namespace {

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  Spec spec() {
    keyword("index");
    if (peek() != 'i' || text_.compare(at_, 6, "input ") != 0) do
        index();
      while (accept(','));
    keyword("input");
    if (peek() == '[' && !statement_follows()) do
        shape();
      while (accept(','));
    while (peek() == '[') statement();
    if (peek() != '\0') fail("the end");
    check_spec(spec_);
    return std::move(spec_);
  }

 private:
  [[noreturn]] void fail(const std::string& expected) {
    const std::string found = peek() == '\0' ? "the end" : std::string("'") + text_[at_] + "'";
    throw UserError("parse_spec: at character " + std::to_string(at_) + ": expected " + expected +
                    ", found " + found);
  }

  char peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool accept(char symbol) {
    if (peek() != symbol) return false;
    ++at_;
    return true;
  }

  void expect(char symbol) {
    if (!accept(symbol)) fail(std::string("'") + symbol + "'");
  }

  std::string word() {
    peek();
    const size_t start = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) {
      ++at_;
    }
    if (start == at_) fail("a name");
    return text_.substr(start, at_ - start);
  }

  void keyword(const char* wanted) {
    peek();
    const size_t start = at_;
    if (word() == wanted) return;
    at_ = start;
    fail(std::string("\"") + wanted + "\"");
  }

  double number() {
    peek();
    char* end = nullptr;
    const double value = std::strtod(text_.c_str() + at_, &end);
    const size_t stop = end - text_.c_str();
    if (stop == at_) fail("a number");
    at_ = stop;
    return value;
  }

  /// Both shapes and statements start with '['; a statement's bracket is followed by '='.
  bool statement_follows() const {
    const size_t close = text_.find(']', at_);
    if (close == std::string::npos) return false;
    const size_t next = text_.find_first_not_of(" \t\n", close + 1);
    return next != std::string::npos && text_[next] == '=';
  }

  void index() {
    Index index;
    index.name = word();
    expect('=');
    index.extent = static_cast<int64_t>(number());
    index.whole = accept('!');
    positions_[index.name] = static_cast<int>(spec_.indices.size());
    spec_.indices.push_back(index);
  }

  void shape() {
    Shape shape;
    expect('[');
    if (!accept(']')) {
      do shape.push_back(static_cast<int64_t>(number()));
      while (accept(','));
      expect(']');
    }
    spec_.input_shapes.push_back(shape);
  }

  int position() {
    const size_t start = at_;
    const auto found = positions_.find(word());
    if (found != positions_.end()) return found->second;
    at_ = start;
    fail("a declared index");
  }

  std::vector<int> positions(char close) {
    std::vector<int> result;
    if (accept(close)) return result;
    do result.push_back(position());
    while (accept(','));
    expect(close);
    return result;
  }

  std::vector<ExprPtr> args(char close) {
    std::vector<ExprPtr> result;
    if (accept(close)) return result;
    do result.push_back(expr());
    while (accept(','));
    expect(close);
    return result;
  }

  ExprPtr read() {
    const int input = static_cast<int>(number());
    std::optional<double> pad;
    if (accept('{')) {
      pad = number();
      expect('}');
    }
    expect('[');
    return make_read(input, args(']'), pad);
  }

  ExprPtr reduce(const std::string& name) {
    const auto kind = parse_reduce(name);
    if (!kind) fail("sum, max, min, prod, logsumexp or softmaxmean before '{'");
    auto bound = positions('}');
    expect('(');
    auto body = expr();
    if (*kind == ReduceKind::kSoftmaxMean) {
      expect(',');
      auto score = expr();
      expect(')');
      return make_softmax_mean(std::move(bound), std::move(body), std::move(score));
    }
    expect(')');
    return make_reduce(*kind, std::move(bound), std::move(body));
  }

  ExprPtr expr() {
    const char next = peek();
    if (accept(':')) return make_whole();
    if (accept('#')) return read();
    if (next == '-' || next == '.' || std::isdigit(static_cast<unsigned char>(next))) {
      return make_const(number());
    }
    const std::string name = word();
    if (accept('(')) return make_call(name, args(')'));
    if (accept('<')) return make_opaque(name, args('>'));
    if (accept('{')) return reduce(name);
    const auto found = positions_.find(name);
    if (found != positions_.end()) return make_index(found->second);
    if (name == "inf" || name == "nan") return make_const(std::strtod(name.c_str(), nullptr));
    at_ -= name.size();
    fail("a declared index or a function");
  }

  void statement() {
    Statement statement;
    expect('[');
    statement.axes = positions(']');
    expect('=');
    peek();
    if (text_.compare(at_, 4, "none") == 0 && !positions_.count("none")) {
      at_ += 4;
    } else {
      statement.body = expr();
    }
    spec_.outputs.push_back(std::move(statement));
  }

  const std::string& text_;
  size_t at_ = 0;
  Spec spec_;
  std::unordered_map<std::string, int> positions_;
};

}  // namespace

Spec parse_spec(const std::string& text) { return Parser(text).spec(); }

}  // namespace smex::tdl
