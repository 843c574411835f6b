// In which operands a spec is linear: there a sum of operands gives the sum of the results.
#include <algorithm>
#include <optional>

#include "tdl/spec.h"

namespace smex::tdl {
namespace {

/// How an expression depends on the operands of a set. Zero is of every degree.
enum class Degree { kAny, kConstant, kLinear };
using MaybeDegree = std::optional<Degree>;  ///< nothing: neither constant nor linear

class DegreeOf {
 public:
  explicit DegreeOf(uint64_t set) : set_(set) {}

  MaybeDegree operator()(const Expr& expr) const {
    switch (expr.kind) {
      case ExprKind::kConst:
        return expr.value == 0 ? Degree::kAny : Degree::kConstant;
      case ExprKind::kIndex:
      case ExprKind::kWhole:
        return Degree::kConstant;
      case ExprKind::kRead:
        return read(expr);
      case ExprKind::kReduce: {
        const MaybeDegree body = (*this)(*expr.args[0]);
        if (expr.reduce == ReduceKind::kSoftmaxMean)
          return if_constant({expr.args[1]}) ? body : std::nullopt;
        if (expr.reduce == ReduceKind::kLogSumExp) return if_constant({expr.args[0]});
        return body == Degree::kLinear && expr.reduce != ReduceKind::kSum ? std::nullopt : body;
      }
      case ExprKind::kOpaque:
        return if_constant(expr.args);
      case ExprKind::kCall:
        return call(expr);
    }
    return std::nullopt;
  }

 private:
  MaybeDegree read(const Expr& expr) const {
    if (!if_constant(expr.args)) return std::nullopt;
    if (!(set_ >> expr.input & 1)) return Degree::kConstant;
    return expr.pad.value_or(0) == 0 ? MaybeDegree(Degree::kLinear) : std::nullopt;
  }

  MaybeDegree call(const Expr& expr) const {
    const auto& args = expr.args;
    const std::string& name = expr.name;
    if (name == "add" || name == "sub") return same((*this)(*args[0]), (*this)(*args[1]));
    if (name == "neg" || name == "like") return (*this)(*args[0]);
    if (name == "where") {
      return if_constant({args[0]}) ? same((*this)(*args[1]), (*this)(*args[2])) : std::nullopt;
    }
    if (name == "div") return if_constant({args[1]}) ? (*this)(*args[0]) : std::nullopt;
    if (name == "mul") {
      const MaybeDegree a = (*this)(*args[0]), b = (*this)(*args[1]);
      if (!a || !b || (a == Degree::kLinear && b == Degree::kLinear)) return std::nullopt;
      if (a == Degree::kAny || b == Degree::kAny) return Degree::kAny;
      return a == Degree::kLinear ? a : b;
    }
    return if_constant(args);
  }

  static MaybeDegree same(MaybeDegree a, MaybeDegree b) {
    if (!a || !b) return std::nullopt;
    if (a == Degree::kAny) return b;
    if (b == Degree::kAny) return a;
    return a == b ? a : std::nullopt;
  }

  MaybeDegree if_constant(const std::vector<ExprPtr>& parts) const {
    for (const ExprPtr& part : parts) {
      const MaybeDegree degree = (*this)(*part);
      if (!degree || degree == Degree::kLinear) return std::nullopt;
    }
    return Degree::kConstant;
  }

  const uint64_t set_;
};

bool is_linear(const Spec& spec, uint64_t set) {
  bool any = false;
  for (const Statement& statement : spec.outputs) {
    if (!statement.body) continue;
    const MaybeDegree degree = DegreeOf(set)(*statement.body);
    if (!degree || degree == Degree::kConstant) return false;
    any = any || degree == Degree::kLinear;
  }
  return any;
}

}  // namespace

std::vector<uint64_t> linear_sets(const Spec& spec) {
  constexpr size_t kMaxSubsets = 6;  // of more operands only all together are tried
  std::vector<uint64_t> found;
  const size_t count = spec.input_shapes.size();
  if (count == 0 || count > 63) return found;
  const uint64_t all = (uint64_t{1} << count) - 1;
  for (uint64_t set = count > kMaxSubsets ? all : 1; set <= all; ++set) {
    if (is_linear(spec, set)) found.push_back(set);
  }
  return found;
}

}  // namespace smex::tdl
