#include "tdl/interpreter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "ir/error.h"
#include "tdl/expr.h"

namespace smex::tdl {
namespace {

using Unary = double (*)(double);
using Binary = double (*)(double, double);

const std::unordered_map<std::string, Unary>& unary_functions() {
  static const std::unordered_map<std::string, Unary> table = {
      {"abs", [](double x) { return std::fabs(x); }},
      {"acos", [](double x) { return std::acos(x); }},
      {"acosh", [](double x) { return std::acosh(x); }},
      {"asin", [](double x) { return std::asin(x); }},
      {"asinh", [](double x) { return std::asinh(x); }},
      {"atan", [](double x) { return std::atan(x); }},
      {"atanh", [](double x) { return std::atanh(x); }},
      {"ceil", [](double x) { return std::ceil(x); }},
      {"cos", [](double x) { return std::cos(x); }},
      {"cosh", [](double x) { return std::cosh(x); }},
      {"erf", [](double x) { return std::erf(x); }},
      {"erfc", [](double x) { return std::erfc(x); }},
      {"exp", [](double x) { return std::exp(x); }},
      {"exp2", [](double x) { return std::exp2(x); }},
      {"expm1", [](double x) { return std::expm1(x); }},
      {"floor", [](double x) { return std::floor(x); }},
      {"isnan", [](double x) { return std::isnan(x) ? 1.0 : 0.0; }},
      {"lgamma", [](double x) { return std::lgamma(x); }},
      {"log", [](double x) { return std::log(x); }},
      {"log10", [](double x) { return std::log10(x); }},
      {"log1p", [](double x) { return std::log1p(x); }},
      {"log2", [](double x) { return std::log2(x); }},
      {"neg", [](double x) { return -x; }},
      {"not", [](double x) { return x == 0 ? 1.0 : 0.0; }},
      {"reciprocal", [](double x) { return 1 / x; }},
      {"relu", [](double x) { return x > 0 || std::isnan(x) ? x : 0.0; }},
      {"round", [](double x) { return std::nearbyint(x); }},
      {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
      {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"sign", [](double x) { return static_cast<double>((x > 0) - (x < 0)); }},
      {"signbit", [](double x) { return std::signbit(x) ? 1.0 : 0.0; }},
      {"sin", [](double x) { return std::sin(x); }},
      {"sinh", [](double x) { return std::sinh(x); }},
      {"sqrt", [](double x) { return std::sqrt(x); }},
      {"tan", [](double x) { return std::tan(x); }},
      {"tanh", [](double x) { return std::tanh(x); }},
      {"tgamma", [](double x) { return std::tgamma(x); }},
      {"trunc", [](double x) { return std::trunc(x); }},
  };
  return table;
}

const std::unordered_map<std::string, Binary>& binary_functions() {
  static const std::unordered_map<std::string, Binary> table = {
      {"add", [](double a, double b) { return a + b; }},
      {"and", [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; }},
      {"atan2", [](double a, double b) { return std::atan2(a, b); }},
      {"copysign", [](double a, double b) { return std::copysign(a, b); }},
      {"div", [](double a, double b) { return a / b; }},
      {"eq", [](double a, double b) { return a == b ? 1.0 : 0.0; }},
      {"floordiv", [](double a, double b) { return std::floor(a / b); }},
      {"fmod", [](double a, double b) { return std::fmod(a, b); }},
      {"ge", [](double a, double b) { return a >= b ? 1.0 : 0.0; }},
      {"gt", [](double a, double b) { return a > b ? 1.0 : 0.0; }},
      {"hypot", [](double a, double b) { return std::hypot(a, b); }},
      {"lands", [](double a, double b) { return a == b ? 1.0 : 0.0; }},
      {"le", [](double a, double b) { return a <= b ? 1.0 : 0.0; }},
      {"lt", [](double a, double b) { return a < b ? 1.0 : 0.0; }},
      {"max", [](double a, double b) { return std::isnan(a) || a > b ? a : b; }},
      {"min", [](double a, double b) { return std::isnan(a) || a < b ? a : b; }},
      {"mod", [](double a, double b) { return a - b * std::floor(a / b); }},
      {"mul", [](double a, double b) { return a * b; }},
      {"ne", [](double a, double b) { return a != b ? 1.0 : 0.0; }},
      {"nextafter", [](double a, double b) { return std::nextafter(a, b); }},
      {"or", [](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; }},
      {"pow", [](double a, double b) { return std::pow(a, b); }},
      {"sub", [](double a, double b) { return a - b; }},
      {"xor", [](double a, double b) { return (a != 0) != (b != 0) ? 1.0 : 0.0; }},
  };
  return table;
}

double identity(ReduceKind kind) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  switch (kind) {
    case ReduceKind::kSum:
      return 0;
    case ReduceKind::kMax:
    case ReduceKind::kLogSumExp:
      return -kInf;
    case ReduceKind::kMin:
      return kInf;
    case ReduceKind::kProd:
      return 1;
    case ReduceKind::kSoftmaxMean:
      break;  // of two numbers
  }
  throw InternalError("unknown ReduceKind");
}

double log_add(double a, double b) {
  if (a == b && std::isinf(a)) return a;
  const double largest = std::max(a, b);
  return largest + std::log1p(std::exp(std::min(a, b) - largest));
}

double combine(ReduceKind kind, double a, double b) {
  switch (kind) {
    case ReduceKind::kSum:
      return a + b;
    case ReduceKind::kMax:
      return std::isnan(a) || a > b ? a : b;
    case ReduceKind::kMin:
      return std::isnan(a) || a < b ? a : b;
    case ReduceKind::kProd:
      return a * b;
    case ReduceKind::kLogSumExp:
      return log_add(a, b);
    case ReduceKind::kSoftmaxMean:
      break;
  }
  throw InternalError("unknown ReduceKind");
}

class Interpreter {
 public:
  Interpreter(const Spec& spec, const std::vector<Tensor>& inputs)
      : spec_(spec), inputs_(inputs), at_(spec.indices.size(), 0) {}

  Tensor statement(const Statement& statement) {
    Tensor result;
    if (!statement.body) return result;
    for (int axis : statement.axes) result.shape.push_back(spec_.indices[axis].extent);
    loop(statement.axes, 0, [&] { result.data.push_back(eval(*statement.body)); });
    return result;
  }

 private:
  template <typename Body>
  void loop(const std::vector<int>& indices, size_t depth, const Body& body) {
    if (depth == indices.size()) return body();
    const int index = indices[depth];
    for (at_[index] = 0; at_[index] < spec_.indices[index].extent; ++at_[index]) {
      loop(indices, depth + 1, body);
    }
  }

  double read(const Expr& expr) {
    const Tensor& input = inputs_[expr.input];
    int64_t position = 0;
    bool inside = true;
    for (size_t dim = 0; dim < expr.args.size(); ++dim) {
      if (expr.args[dim]->kind == ExprKind::kWhole) throw UserError("evaluate: \":\" in a read");
      const auto at = static_cast<int64_t>(eval(*expr.args[dim]));
      if (!expr.pad && (at < 0 || at >= input.shape[dim])) {
        throw UserError("evaluate: read of input " + std::to_string(expr.input) + ", dimension " +
                        std::to_string(dim) + ": expected an index in [0, " +
                        std::to_string(input.shape[dim]) + "), found " + std::to_string(at));
      }
      inside = inside && at >= 0 && at < input.shape[dim];
      position = position * input.shape[dim] + at;
    }
    return inside ? input.data[position] : *expr.pad;
  }

  double call(const Expr& expr) {
    const auto& args = expr.args;
    if (args.size() == 1) {
      const auto found = unary_functions().find(expr.name);
      if (found != unary_functions().end()) return found->second(eval(*args[0]));
      if (expr.name == "told") return eval(*args[0]);
    }
    if (args.size() == 2) {
      if (expr.name == "like") return eval(*args[0]);
      if (expr.name == "and" && eval(*args[0]) == 0) return 0;
      if (expr.name == "or" && eval(*args[0]) != 0) return 1;
      const auto found = binary_functions().find(expr.name);
      if (found != binary_functions().end()) return found->second(eval(*args[0]), eval(*args[1]));
    }
    if (args.size() == 3 && expr.name == "where") {
      return eval(*args[0]) != 0 ? eval(*args[1]) : eval(*args[2]);
    }
    if (args.size() == 3 && expr.name == "in_row") {
      const double place = eval(*args[0]);
      return eval(*args[1]) <= place && place < eval(*args[2]) ? 1.0 : 0.0;
    }
    throw UserError("evaluate: unknown function " + expr.name + " of " +
                    std::to_string(args.size()) + " arguments");
  }

  /// 0 where all scores are -inf.
  double softmax_mean(const Expr& expr) {
    double mean = 0, log_weight = identity(ReduceKind::kLogSumExp);
    loop(expr.bound, 0, [&] {
      const double score = eval(*expr.args[1]);
      const double sum = log_add(log_weight, score);
      if (std::isinf(sum) && sum < 0) return;
      mean = mean * std::exp(log_weight - sum) + eval(*expr.args[0]) * std::exp(score - sum);
      log_weight = sum;
    });
    return mean;
  }

  double eval(const Expr& expr) {
    switch (expr.kind) {
      case ExprKind::kConst:
        return expr.value;
      case ExprKind::kIndex:
        return static_cast<double>(at_[expr.index]);
      case ExprKind::kRead:
        return read(expr);
      case ExprKind::kCall:
        return call(expr);
      case ExprKind::kReduce: {
        if (expr.reduce == ReduceKind::kSoftmaxMean) return softmax_mean(expr);
        double total = identity(expr.reduce);
        loop(expr.bound, 0, [&] { total = combine(expr.reduce, total, eval(*expr.args[0])); });
        return total;
      }
      case ExprKind::kOpaque:
        throw UserError("evaluate: opaque function " + expr.name);
      case ExprKind::kWhole:
        throw UserError("evaluate: \":\" outside a read");
    }
    throw InternalError("unknown ExprKind");
  }

  const Spec& spec_;
  const std::vector<Tensor>& inputs_;
  std::vector<int64_t> at_;
};

}  // namespace

std::vector<Tensor> evaluate(const Spec& spec, const std::vector<Tensor>& inputs) {
  check_spec(spec);
  if (inputs.size() != spec.input_shapes.size()) {
    throw UserError("evaluate: expected " + std::to_string(spec.input_shapes.size()) +
                    " inputs, found " + std::to_string(inputs.size()));
  }
  for (size_t input = 0; input < inputs.size(); ++input) {
    const Shape& expected = spec.input_shapes[input];
    int64_t numel = 1;
    for (int64_t size : expected) numel *= size;
    if (inputs[input].shape != expected ||
        static_cast<int64_t>(inputs[input].data.size()) != numel) {
      throw UserError("evaluate: input " + std::to_string(input) +
                      ": its shape or number of elements differs from the spec's");
    }
  }
  Interpreter interpreter(spec, inputs);
  std::vector<Tensor> results;
  for (const Statement& statement : spec.outputs)
    results.push_back(interpreter.statement(statement));
  return results;
}

}  // namespace smex::tdl
