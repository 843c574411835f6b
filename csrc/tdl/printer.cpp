// Specs as text: the one-line summary `Spec::str` and the full form of `print_spec`.
#include <cmath>
#include <set>
#include <sstream>

#include "tdl/expr.h"
#include "tdl/text.h"

namespace smex::tdl {
namespace {

std::string number(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (std::isnan(value)) return "nan";
  std::ostringstream out;
  out.precision(17);
  out << value;
  return out.str();
}

template <typename Items, typename Print>
std::string joined(const Items& items, const char* separator, const Print& print) {
  std::string text;
  bool first = true;
  for (const auto& item : items) {
    if (!first) text += separator;
    text += print(item);
    first = false;
  }
  return text;
}

class Printer {
 public:
  explicit Printer(const Spec& spec) : spec_(spec) {}

  std::string name(int index) const { return spec_.indices[index].name; }

  std::string names(const std::vector<int>& indices) const {
    return joined(indices, ",", [this](int index) { return name(index); });
  }

  std::string expr(const Expr& expr) const {
    const auto args = [&] {
      return joined(expr.args, ", ", [this](const ExprPtr& arg) { return this->expr(*arg); });
    };
    switch (expr.kind) {
      case ExprKind::kConst:
        return number(expr.value);
      case ExprKind::kIndex:
        return name(expr.index);
      case ExprKind::kRead:
        return "#" + std::to_string(expr.input) + (expr.pad ? "{" + number(*expr.pad) + "}" : "") +
               "[" + args() + "]";
      case ExprKind::kCall:
        return expr.name + "(" + args() + ")";
      case ExprKind::kReduce:
        return std::string(reduce_name(expr.reduce)) + "{" + names(expr.bound) + "}(" + args() +
               ")";
      case ExprKind::kOpaque:
        return expr.name + "<" + args() + ">";
      case ExprKind::kWhole:
        return ":";
    }
    return "?";
  }

  /// An index expression with + - * // %.
  std::string infix(const Expr& expr) const {
    static const std::pair<const char*, const char*> kOperators[] = {
        {"add", "+"}, {"sub", "-"}, {"mul", "*"}, {"floordiv", "//"}, {"mod", "%"}};
    if (expr.kind == ExprKind::kCall && expr.args.size() == 2) {
      for (const auto& [function, symbol] : kOperators) {
        if (expr.name != function) continue;
        const bool sum = expr.name == "add" || expr.name == "sub";
        return operand(*expr.args[0], sum) + symbol + operand(*expr.args[1], expr.name == "add");
      }
    }
    return this->expr(expr);
  }

 private:
  std::string operand(const Expr& expr, bool sum_context) const {
    const bool sum = expr.kind == ExprKind::kCall && (expr.name == "add" || expr.name == "sub");
    const bool bare =
        expr.kind != ExprKind::kCall || (sum_context && sum) || (sum_context && expr.name == "mul");
    return bare ? infix(expr) : "(" + infix(expr) + ")";
  }

  const Spec& spec_;
};

const Expr* first_read(const Expr& expr, int input) {
  if (expr.kind == ExprKind::kRead && expr.input == input) return &expr;
  for (const ExprPtr& arg : expr.args) {
    if (const Expr* found = first_read(*arg, input)) return found;
  }
  return nullptr;
}

const Expr* first_read(const Spec& spec, int input) {
  for (const Statement& statement : spec.outputs) {
    if (!statement.body) continue;
    if (const Expr* found = first_read(*statement.body, input)) return found;
  }
  return nullptr;
}

void collect_reductions(const Expr& expr, const Printer& printer, std::set<std::string>& found) {
  if (expr.kind == ExprKind::kReduce) {
    found.insert(std::string(reduce_name(expr.reduce)) + "{" + printer.names(expr.bound) + "}");
  }
  if (expr.kind == ExprKind::kOpaque) found.insert("opaque{" + expr.name + "}");
  for (const ExprPtr& arg : expr.args) collect_reductions(*arg, printer, found);
}

}  // namespace

std::string Spec::str() const {
  const Printer printer(*this);
  std::string text = "(";
  for (size_t input = 0; input < input_shapes.size(); ++input) {
    if (input) text += ",";
    const Expr* read = first_read(*this, static_cast<int>(input));
    if (!read) {
      text += "_";
      continue;
    }
    text += "[" + joined(read->args, ",", [&](const ExprPtr& arg) { return printer.infix(*arg); }) +
            "]";
  }
  text += ") -> " + joined(outputs, ", ", [&](const Statement& statement) {
            return statement.body ? "[" + printer.names(statement.axes) + "]" : std::string("_");
          });
  std::set<std::string> reductions;
  for (const Statement& statement : outputs) {
    if (statement.body) collect_reductions(*statement.body, printer, reductions);
  }
  for (const std::string& reduction : reductions) text += "  " + reduction;
  return text;
}

std::string print_spec(const Spec& spec) {
  const Printer printer(spec);
  std::string text =
      "index " + joined(spec.indices, ", ", [](const Index& index) {
        return index.name + "=" + std::to_string(index.extent) + (index.whole ? "!" : "");
      });
  text +=
      "\ninput " + joined(spec.input_shapes, ", ", [](const Shape& shape) {
        return "[" + joined(shape, ",", [](int64_t size) { return std::to_string(size); }) + "]";
      });
  for (const Statement& statement : spec.outputs) {
    text += "\n[" + printer.names(statement.axes) +
            "] = " + (statement.body ? printer.expr(*statement.body) : "none");
  }
  return text + "\n";
}

}  // namespace smex::tdl
