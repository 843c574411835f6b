// How much arithmetic a tile of an output asks for.
#include "tdl/spec.h"

namespace smex::tdl {
namespace {

/// The index that a "where" lands on: of all places of the windows around it, one has an element.
int landing(const Expr& condition) {
  if (condition.kind != ExprKind::kCall) return -1;
  if (condition.name == "lands") return condition.args[0]->index;
  return -1;
}

/// Divides `points` by the extents of the indices on which the condition's windows land.
double landed(const Expr& condition, const std::vector<int64_t>& extents, double points) {
  if (condition.kind == ExprKind::kCall && condition.name == "and") {
    for (const ExprPtr& arg : condition.args) points = landed(*arg, extents, points);
    return points;
  }
  const int index = landing(condition);
  return index < 0 || extents[index] == 0 ? points : points / static_cast<double>(extents[index]);
}

/// Operations to evaluate `expr` at `points` points. Positions of reads are free.
double operations(const Expr& expr, const std::vector<int64_t>& extents, double points) {
  switch (expr.kind) {
    case ExprKind::kReduce: {
      double inner = points;
      for (int index : expr.bound) inner *= static_cast<double>(extents[index]);
      const Expr& body = *expr.args[0];
      if (body.kind == ExprKind::kCall && body.name == "where") {
        inner = landed(*body.args[0], extents, inner);
        return inner + operations(*body.args[1], extents, inner);
      }
      return inner + operations(body, extents, inner);
    }
    case ExprKind::kCall: {
      if (expr.name == "like") return operations(*expr.args[0], extents, points);
      double sum = points;
      for (const ExprPtr& arg : expr.args) sum += operations(*arg, extents, points);
      return sum;
    }
    default:
      return 0;
  }
}

}  // namespace

double arithmetic(const Spec& spec, const std::vector<int64_t>& extents) {
  double sum = 0;
  for (const Statement& statement : spec.outputs) {
    if (!statement.body) continue;
    double points = 1;
    for (int axis : statement.axes) points *= static_cast<double>(extents[axis]);
    sum += operations(*statement.body, extents, points);
  }
  return sum;
}

}  // namespace smex::tdl
