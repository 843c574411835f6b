#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tdl/spec.h"

namespace smex::tdl {

// Constructors of expression nodes. They check only what a node alone can tell; `check_spec` does
// the rest.

ExprPtr make_const(double value);
ExprPtr make_index(int index);
ExprPtr make_read(int input, std::vector<ExprPtr> args, std::optional<double> pad = std::nullopt);
ExprPtr make_call(std::string name, std::vector<ExprPtr> args);
ExprPtr make_reduce(ReduceKind kind, std::vector<int> bound, ExprPtr body);
/// The mean of `value` with weights exp(score).
ExprPtr make_softmax_mean(std::vector<int> bound, ExprPtr value, ExprPtr score);
ExprPtr make_opaque(std::string name, std::vector<ExprPtr> args);
ExprPtr make_whole();

/// "sum", "max", "min", "prod", "logsumexp" or "softmaxmean".
const char* reduce_name(ReduceKind kind);
/// The kind of this name, if there is one.
std::optional<ReduceKind> parse_reduce(const std::string& name);

/// Whether two expressions are the same, node by node.
bool equal(const Expr& a, const Expr& b);

/// Whether the expression holds a node of this kind; null holds none.
bool contains_kind(const ExprPtr& expr, ExprKind kind);

/// Throws UserError that names the statement, input or index when positions are out of range, a
/// read's rank differs from its input's, ":" stands outside an opaque, or an index is bound twice.
void check_spec(const Spec& spec);

}  // namespace smex::tdl
