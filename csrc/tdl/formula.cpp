#include "tdl/formula.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

namespace smex::tdl {
namespace {

// Formulas that are longer cost more than what they spare.
constexpr size_t kLongest = 400;

std::string text_of(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return std::string(text, end);
}

/// Functions of one number by what the kernel calls them, and those it has other words for, in
/// which $ is the argument. What it computes number by number (logarithms, sines), or as a long
/// series (the error function), takes torch's own operators less time.
const std::unordered_map<std::string, std::string>& unary() {
  static const std::unordered_map<std::string, std::string> table = {
      {"abs", "abs($)"},   {"exp", "exp($)"},         {"isnan", "1 - equal($, $)"},
      {"neg", "-($)"},     {"not", "1 - ($)"},        {"reciprocal", "1 / ($)"},
      {"relu", "relu($)"}, {"rsqrt", "pow($, -0.5)"}, {"sigmoid", "sigmoid($)"},
      {"sqrt", "sqrt($)"}, {"tanh", "tanh($)"},
  };
  return table;
}

/// Those of two, $ and %.
const std::unordered_map<std::string, std::string>& binary() {
  static const std::unordered_map<std::string, std::string> table = {
      {"add", "($) + (%)"},       {"and", "($) * (%)"},       {"div", "($) / (%)"},
      {"eq", "equal($, %)"},      {"ge", "less_equal(%, $)"}, {"gt", "less(%, $)"},
      {"le", "less_equal($, %)"}, {"lt", "less($, %)"},       {"max", "maximum($, %)"},
      {"min", "minimum($, %)"},   {"mul", "($) * (%)"},       {"ne", "1 - equal($, %)"},
      {"or", "maximum($, %)"},    {"sub", "($) - (%)"},
  };
  return table;
}

/// Whether the value is 0 or 1.
bool is_condition(const Expr& expr) {
  static const std::unordered_set<std::string> names = {"and", "eq", "ge", "gt",  "isnan",
                                                        "le",  "lt", "ne", "not", "or"};
  return expr.kind == ExprKind::kCall && names.count(expr.name) > 0;
}

bool wants_conditions(const std::string& name) {
  return name == "and" || name == "or" || name == "not";
}

bool is_number(const Expr& expr, double value) {
  return expr.kind == ExprKind::kConst && expr.value == value;
}

class Writer {
 public:
  Writer(const Spec& spec, const std::vector<std::string>& names)
      : spec_(spec), names_(names), read_(names.size(), false) {}

  std::optional<Formula> formula(const Expr& body) {
    auto text = write(body);
    const bool all_read = std::find(read_.begin(), read_.end(), false) == read_.end();
    if (!text || !all_read) return std::nullopt;
    return Formula{std::move(*text), operations_, has_exponentials_};
  }

 private:
  std::optional<std::string> write(const Expr& expr) {
    switch (expr.kind) {
      case ExprKind::kConst:
        if (!std::isfinite(expr.value)) return std::nullopt;
        return text_of(expr.value);
      case ExprKind::kRead:
        if (!is_broadcast(expr)) return std::nullopt;
        read_.at(expr.input) = true;
        return names_.at(expr.input);
      case ExprKind::kCall:
        return call(expr);
      default:
        return std::nullopt;
    }
  }

  /// Whether it is the element that broadcasts to that of the output.
  bool is_broadcast(const Expr& read) const {
    const auto& axes = spec_.outputs[0].axes;
    const size_t rank = read.args.size();
    if (read.pad || rank > axes.size()) return false;
    for (size_t d = 0; d < rank; ++d) {
      const Expr& at = *read.args[d];
      const bool own = at.kind == ExprKind::kIndex && at.index == axes[axes.size() - rank + d];
      if (!own && !is_number(at, 0)) return false;
    }
    return true;
  }

  std::optional<std::string> call(const Expr& expr) {
    const auto& args = expr.args;
    if (expr.name == "where") return where(*args[0], *args[1], *args[2]);
    if (expr.name == "pow") return power(*args[0], *args[1]);
    if (wants_conditions(expr.name)) {
      for (const ExprPtr& arg : args) {
        if (!is_condition(*arg)) return std::nullopt;
      }
    }
    const auto& table = args.size() == 1 ? unary() : binary();
    const auto found = table.find(expr.name);
    if (args.size() > 2 || found == table.end()) return std::nullopt;
    has_exponentials_ |= expr.name == "exp" || expr.name == "sigmoid" || expr.name == "tanh";
    std::vector<std::string> written;
    for (const ExprPtr& arg : args) {
      auto text = write(*arg);
      if (!text) return std::nullopt;
      written.push_back(std::move(*text));
    }
    return filled(found->second, written);
  }

  std::optional<std::string> filled(const std::string& form, const std::vector<std::string>& args) {
    ++operations_;
    std::string text;
    for (const char letter : form) {
      if (letter == '$') {
        text += args[0];
      } else if (letter == '%') {
        text += args[1];
      } else {
        text += letter;
      }
    }
    if (text.size() > kLongest) return std::nullopt;
    return text;
  }

  std::optional<std::string> power(const Expr& base, const Expr& exponent) {
    constexpr double kQuick[] = {2, 3, 0.5, -0.5, -1, -2};
    for (const double quick : kQuick) {
      if (!is_number(exponent, quick)) continue;
      const auto text = write(base);
      if (!text) return std::nullopt;
      return filled("pow($, %)", {*text, text_of(quick)});
    }
    return std::nullopt;
  }

  /// What is chosen exactly: -0, which the other branch is then, changes nothing it is added to.
  std::optional<std::string> where(const Expr& condition, const Expr& yes, const Expr& no) {
    if (!is_condition(condition)) return std::nullopt;
    const auto chosen = write(condition), a = write(yes), b = write(no);
    if (!chosen || !a || !b) return std::nullopt;
    if (is_number(no, 0)) return filled("select($, %)", {*chosen, *a});
    if (is_number(yes, 0)) return filled("select(1 - ($), %)", {*chosen, *b});
    const auto first = filled("part($, %)", {*chosen, *a});
    const auto second = filled("part(1 - ($), %)", {*chosen, *b});
    if (!first || !second) return std::nullopt;
    return filled("$ + %", {*first, *second});
  }

  const Spec& spec_;
  const std::vector<std::string>& names_;
  std::vector<bool> read_;
  int operations_ = 0;
  bool has_exponentials_ = false;
};

}  // namespace

std::optional<Formula> formula(const Spec& spec, const std::vector<std::string>& names) {
  if (spec.outputs.size() != 1 || !spec.outputs[0].body) return std::nullopt;
  const Expr& body = *spec.outputs[0].body;
  if (body.kind != ExprKind::kCall) return std::nullopt;
  return Writer(spec, names).formula(body);
}

}  // namespace smex::tdl
