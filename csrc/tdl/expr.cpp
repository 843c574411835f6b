#include "tdl/expr.h"

#include <algorithm>
#include <utility>

#include "ir/error.h"

namespace smex::tdl {
namespace {

std::shared_ptr<Expr> node(ExprKind kind) {
  auto expr = std::make_shared<Expr>();
  expr->kind = kind;
  return expr;
}

class Checker {
 public:
  explicit Checker(const Spec& spec) : spec_(spec), bound_(spec.indices.size(), false) {}

  void statement(size_t output) {
    const Statement& statement = spec_.outputs[output];
    where_ = "output " + std::to_string(output);
    for (int axis : statement.axes) bind(axis);
    if (statement.body) expr(*statement.body, /*in_opaque=*/false);
    for (int axis : statement.axes) bound_[axis] = false;
  }

 private:
  [[noreturn]] void fail(const std::string& text) const {
    throw UserError("spec: " + where_ + ": " + text);
  }

  void known(int index) const {
    if (index < 0 || index >= static_cast<int>(spec_.indices.size())) {
      fail("expected an index below " + std::to_string(spec_.indices.size()) + ", found " +
           std::to_string(index));
    }
  }

  void bind(int index) {
    known(index);
    if (bound_[index]) fail("index " + spec_.indices[index].name + " is bound twice");
    bound_[index] = true;
  }

  void read(const Expr& expr, bool in_opaque) {
    if (expr.input < 0 || expr.input >= static_cast<int>(spec_.input_shapes.size())) {
      fail("expected an input below " + std::to_string(spec_.input_shapes.size()) + ", found " +
           std::to_string(expr.input));
    }
    const size_t rank = spec_.input_shapes[expr.input].size();
    if (expr.args.size() != rank) {
      fail("read of input " + std::to_string(expr.input) + ": expected " + std::to_string(rank) +
           " indices, found " + std::to_string(expr.args.size()));
    }
    for (const ExprPtr& arg : expr.args) {
      if (arg->kind != ExprKind::kWhole) {
        this->expr(*arg, in_opaque);
      } else if (!in_opaque) {
        fail("\":\" in a read of input " + std::to_string(expr.input) + " outside an opaque");
      }
    }
  }

  /// in_row(place, bounds[row], bounds[row + 1])
  void rows(const Expr& call) {
    const auto is_index = [](const ExprPtr& arg) { return arg->kind == ExprKind::kIndex; };
    bool fits = call.args.size() == 3 && is_index(call.args[0]);
    for (size_t n = 1; fits && n < 3; ++n) {
      const Expr& bound = *call.args[n];
      fits = bound.kind == ExprKind::kRead && bound.args.size() == 1 &&
             bound.input == call.args[1]->input;
    }
    const Expr* first = fits ? call.args[1]->args[0].get() : nullptr;
    const Expr* second = fits ? call.args[2]->args[0].get() : nullptr;
    fits = fits && first->kind == ExprKind::kIndex && second->kind == ExprKind::kCall &&
           second->name == "add" && equal(*second->args[0], *first) &&
           second->args[1]->kind == ExprKind::kConst && second->args[1]->value == 1;
    if (!fits) fail("in_row: expected an index, bounds[row] and bounds[row + 1]");
  }

  void expr(const Expr& expr, bool in_opaque) {
    switch (expr.kind) {
      case ExprKind::kWhole:
        fail("\":\" outside a read");
      case ExprKind::kIndex:
        known(expr.index);
        if (!bound_[expr.index]) fail("index " + spec_.indices[expr.index].name + " is not bound");
        return;
      case ExprKind::kRead:
        return read(expr, in_opaque);
      case ExprKind::kReduce:
        for (int index : expr.bound) bind(index);
        for (const ExprPtr& arg : expr.args) this->expr(*arg, in_opaque);
        for (int index : expr.bound) bound_[index] = false;
        return;
      default:
        if (expr.kind == ExprKind::kCall && expr.name == "lands" &&
            (expr.args.size() != 2 || expr.args[0]->kind != ExprKind::kIndex)) {
          fail("lands: expected an index and a position");
        }
        if (expr.kind == ExprKind::kCall && expr.name == "in_row") rows(expr);
        if (expr.kind == ExprKind::kCall && expr.name == "told" &&
            (expr.args.size() != 1 || expr.args[0]->kind != ExprKind::kIndex)) {
          fail("told: expected an index");
        }
        in_opaque = in_opaque || expr.kind == ExprKind::kOpaque;
        for (const ExprPtr& arg : expr.args) this->expr(*arg, in_opaque);
    }
  }

  const Spec& spec_;
  std::vector<bool> bound_;
  std::string where_;
};

}  // namespace

ExprPtr make_const(double value) {
  auto expr = node(ExprKind::kConst);
  expr->value = value;
  return expr;
}

ExprPtr make_index(int index) {
  auto expr = node(ExprKind::kIndex);
  expr->index = index;
  return expr;
}

ExprPtr make_read(int input, std::vector<ExprPtr> args, std::optional<double> pad) {
  auto expr = node(ExprKind::kRead);
  expr->input = input;
  expr->args = std::move(args);
  expr->pad = pad;
  return expr;
}

ExprPtr make_call(std::string name, std::vector<ExprPtr> args) {
  auto expr = node(ExprKind::kCall);
  expr->name = std::move(name);
  expr->args = std::move(args);
  return expr;
}

ExprPtr make_reduce(ReduceKind kind, std::vector<int> bound, ExprPtr body) {
  auto expr = node(ExprKind::kReduce);
  expr->reduce = kind;
  expr->bound = std::move(bound);
  expr->args = {std::move(body)};
  return expr;
}

ExprPtr make_softmax_mean(std::vector<int> bound, ExprPtr value, ExprPtr score) {
  auto expr = node(ExprKind::kReduce);
  expr->reduce = ReduceKind::kSoftmaxMean;
  expr->bound = std::move(bound);
  expr->args = {std::move(value), std::move(score)};
  return expr;
}

ExprPtr make_opaque(std::string name, std::vector<ExprPtr> args) {
  auto expr = node(ExprKind::kOpaque);
  expr->name = std::move(name);
  expr->args = std::move(args);
  return expr;
}

ExprPtr make_whole() {
  static const ExprPtr whole = node(ExprKind::kWhole);
  return whole;
}

const char* reduce_name(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
      return "sum";
    case ReduceKind::kMax:
      return "max";
    case ReduceKind::kMin:
      return "min";
    case ReduceKind::kProd:
      return "prod";
    case ReduceKind::kLogSumExp:
      return "logsumexp";
    case ReduceKind::kSoftmaxMean:
      return "softmaxmean";
  }
  throw InternalError("unknown ReduceKind");
}

std::optional<ReduceKind> parse_reduce(const std::string& name) {
  for (ReduceKind kind : {ReduceKind::kSum, ReduceKind::kMax, ReduceKind::kMin, ReduceKind::kProd,
                          ReduceKind::kLogSumExp, ReduceKind::kSoftmaxMean}) {
    if (name == reduce_name(kind)) return kind;
  }
  return std::nullopt;
}

bool equal(const Expr& a, const Expr& b) {
  const bool same = a.kind == b.kind && a.value == b.value && a.index == b.index &&
                    a.input == b.input && a.name == b.name && a.reduce == b.reduce &&
                    a.bound == b.bound && a.pad == b.pad;
  return same && std::equal(a.args.begin(), a.args.end(), b.args.begin(), b.args.end(),
                            [](const ExprPtr& x, const ExprPtr& y) { return equal(*x, *y); });
}

bool contains_kind(const ExprPtr& expr, ExprKind kind) {
  if (!expr) return false;
  if (expr->kind == kind) return true;
  for (const ExprPtr& arg : expr->args) {
    if (contains_kind(arg, kind)) return true;
  }
  return false;
}

void check_spec(const Spec& spec) {
  Checker checker(spec);
  for (size_t output = 0; output < spec.outputs.size(); ++output) checker.statement(output);
}

}  // namespace smex::tdl
