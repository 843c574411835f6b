// Which indices of a spec divide its op into tiles that the same kernel computes (Tofu §4.2).
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "tdl/expr.h"
#include "tdl/linear.h"
#include "tdl/spec.h"

namespace smex::tdl {
namespace {

/// How one dimension of an input follows one index: not at all, or in a way that all reads must
/// share.
struct Dependence {
  bool depends = false;
  int64_t coefficient = 0;  ///< affine; 0 when the index is inside a quotient or remainder
  Linear form;              ///< compared when it is not affine
  bool operator==(const Dependence& other) const {
    if (depends != other.depends || coefficient != other.coefficient) return false;
    return !depends || coefficient != 0 || form == other.form;
  }
};

class SplitOf {
 public:
  SplitOf(const Spec& spec, const std::vector<int>& weight_sums, int index)
      : spec_(spec), weight_sums_(weight_sums), index_(index) {
    for (const Shape& shape : spec.input_shapes) seen_.emplace_back(shape.size());
  }

  std::optional<Split> derive() {
    const Index& index = spec_.indices[index_];
    if (index.whole || index.extent <= 1) return std::nullopt;
    Split split;
    split.index = index_;
    if (!place(split)) return std::nullopt;
    bool all_tiles = true;
    for (size_t o = 0; o < spec_.outputs.size(); ++o) {
      const Statement& statement = spec_.outputs[o];
      if (!statement.body) continue;
      mentioned_ = false;
      if (!values(*statement.body)) return std::nullopt;
      const bool opaque = contains_kind(statement.body, ExprKind::kOpaque);
      const bool without = !has_axis(statement) && !split.reduces[o];
      if (without ? mentioned_ : opaque && !mentioned_) return std::nullopt;
      all_tiles = all_tiles && has_axis(statement);
    }
    // A kernel whose output is cropped to its tile would be cropped in all of them.
    if (lands_ && !all_tiles) return std::nullopt;
    split.granule = granule_;
    if (granule_ >= index.extent) return std::nullopt;
    return split;
  }

 private:
  bool has_axis(const Statement& statement) const {
    return std::count(statement.axes.begin(), statement.axes.end(), index_) > 0;
  }

  /// Sets `reduces`; false where the index is no axis of an output, and bound by no outermost
  /// reduction.
  bool place(Split& split) const {
    bool found = false;
    for (const Statement& statement : spec_.outputs) {
      split.reduces.emplace_back();
      if (!statement.body) continue;
      if (std::count(statement.axes.begin(), statement.axes.end(), index_) > 1) return false;
      if (!has_axis(statement)) split.reduces.back() = outermost(*statement.body);
      if (split.reduces.back() == ReduceKind::kSoftmaxMean &&
          weight_sums_[split.reduces.size() - 1] < 0) {
        return false;
      }
      found = found || has_axis(statement) || split.reduces.back();
    }
    return found;
  }

  /// The kind of the outermost reductions when they bind the index: sum{a}(sum{b}(…)) binds a and
  /// b.
  std::optional<ReduceKind> outermost(const Expr& body) const {
    std::optional<ReduceKind> kind;
    const Expr* expr = &body;
    while (expr->kind == ExprKind::kReduce ||
           (expr->kind == ExprKind::kCall && expr->name == "like")) {
      if (expr->kind == ExprKind::kReduce) {
        // A mean of means has other weights than the mean of all.
        if (kind && (*kind != expr->reduce || *kind == ReduceKind::kSoftmaxMean))
          return std::nullopt;
        kind = expr->reduce;
        if (std::count(expr->bound.begin(), expr->bound.end(), index_)) return kind;
      }
      expr = expr->args[0].get();
    }
    return std::nullopt;
  }

  /// Walks an expression in value position; false when the index is used in a way that forbids the
  /// split.
  bool values(const Expr& expr) {
    if (expr.kind == ExprKind::kIndex) return expr.index != index_;
    if (expr.kind == ExprKind::kRead) return read(expr);
    if (expr.kind == ExprKind::kCall && expr.name == "told") {
      mentioned_ = mentioned_ || expr.args[0]->index == index_;
      return true;
    }
    if (expr.kind == ExprKind::kCall && expr.name == "in_row") {
      // A kernel is given bounds of its rows that count from its first place, if they are known.
      const Expr& bound = *expr.args[1];
      const bool mine = expr.args[0]->index == index_ || bound.args[0]->index == index_;
      mentioned_ = mentioned_ || mine;
      return !mine || spec_.table(bound.input);
    }
    if (expr.kind == ExprKind::kCall && expr.name == "lands") {
      // A kernel is told where its tile lies; the places of its windows are not divided.
      const auto position = linear_form(*expr.args[1], spec_.indices);
      lands_ = lands_ || expr.args[0]->index == index_;
      return position && !position->mentions(index_);
    }
    for (const ExprPtr& arg : expr.args) {
      if (!values(*arg)) return false;
    }
    return true;
  }

  bool read(const Expr& expr) {
    for (size_t dim = 0; dim < expr.args.size(); ++dim) {
      const auto found = dependence(*expr.args[dim]);
      if (!found) return false;
      auto& seen = seen_[expr.input][dim];
      if (seen && !(*seen == *found)) return false;
      seen = *found;
    }
    return true;
  }

  std::optional<Dependence> dependence(const Expr& index_expr) {
    Dependence result;
    if (index_expr.kind == ExprKind::kWhole) return result;
    const auto linear = linear_form(index_expr, spec_.indices);
    if (!linear) {
      // Data decides: the dimension is whole, and the index may only choose which data.
      return values(index_expr) ? std::optional(result) : std::nullopt;
    }
    if (!linear->mentions(index_)) return result;
    mentioned_ = true;
    result.depends = true;
    result.form = *linear;
    const Term& term = term_of(*linear);
    if (term.atom.kind == Atom::Kind::kIndex) result.coefficient = term.coefficient;
    const auto granule = aligned(*linear, /*alignment=*/1);
    if (!granule) return std::nullopt;
    granule_ = std::lcm(granule_, *granule);
    return result;
  }

  const Term& term_of(const Linear& linear) const {
    return *std::find_if(linear.terms.begin(), linear.terms.end(),
                         [this](const Term& term) { return term.atom.mentions(index_); });
  }

  bool moves(const Atom& atom) const {
    if (atom.kind == Atom::Kind::kIndex) {
      return !spec_.indices[atom.index].whole && spec_.indices[atom.index].extent > 1;
    }
    return std::any_of(atom.inner->terms.begin(), atom.inner->terms.end(),
                       [this](const Term& term) { return moves(term.atom); });
  }

  /// The smallest step of the index at which the form is a multiple of `alignment`, when the index
  /// is the slowest of the form, so that a tile of it reads one contiguous range.
  std::optional<int64_t> aligned(const Linear& linear, int64_t alignment) const {
    const Term& mine = term_of(linear);
    for (const Term& other : linear.terms) {
      if (&other == &mine) continue;
      if (other.atom.mentions(index_)) return std::nullopt;
      if (moves(other.atom) && std::abs(other.coefficient) >= std::abs(mine.coefficient)) {
        return std::nullopt;
      }
    }
    if (mine.atom.kind == Atom::Kind::kIndex) {
      if (alignment == 1) return 1;
      if (!digits_below(linear, mine) || linear.offset % alignment != 0) return std::nullopt;
      return alignment / std::gcd(alignment, mine.coefficient);
    }
    if (linear.terms.size() > 1 && alignment > 1) return std::nullopt;
    const int64_t inner = mine.atom.kind == Atom::Kind::kDiv
                              ? alignment * mine.atom.divisor
                              : std::lcm(alignment, mine.atom.divisor);
    return aligned(*mine.atom.inner, inner);
  }

  /// Whether the other terms together stay within one step of the index's: lower digits of a
  /// number.
  bool digits_below(const Linear& linear, const Term& mine) const {
    Linear rest;
    for (const Term& term : linear.terms) {
      if (&term != &mine) rest.terms.push_back(term);
    }
    const Interval range = range_of(rest, full_ranges(spec_));
    return range.lo >= 0 && range.hi <= std::abs(mine.coefficient);
  }

  const Spec& spec_;
  const std::vector<int>& weight_sums_;
  const int index_;
  int64_t granule_ = 1;
  bool mentioned_ = false;
  bool lands_ = false;
  std::vector<std::vector<std::optional<Dependence>>> seen_;
};

}  // namespace

bool Split::any_reduces() const {
  return std::any_of(reduces.begin(), reduces.end(),
                     [](const auto& kind) { return kind.has_value(); });
}

std::vector<std::optional<double>> take_divisors(Spec& spec) {
  std::vector<std::optional<double>> divisors;
  for (Statement& statement : spec.outputs) {
    divisors.emplace_back();
    const Expr* body = statement.body.get();
    const bool is_mean = body && body->kind == ExprKind::kCall && body->name == "div" &&
                         body->args[0]->kind == ExprKind::kReduce &&
                         body->args[0]->reduce == ReduceKind::kSum &&
                         body->args[1]->kind == ExprKind::kConst;
    if (!is_mean) continue;
    divisors.back() = body->args[1]->value;
    statement.body = body->args[0];
  }
  return divisors;
}

std::vector<int> weight_sums(const Spec& spec) {
  std::vector<int> sums;
  const auto is_reduce = [](const Statement& statement, ReduceKind kind) {
    return statement.body && statement.body->kind == ExprKind::kReduce &&
           statement.body->reduce == kind;
  };
  for (const Statement& mean : spec.outputs) {
    sums.push_back(-1);
    if (!is_reduce(mean, ReduceKind::kSoftmaxMean)) continue;
    for (size_t o = 0; o < spec.outputs.size() && sums.back() < 0; ++o) {
      const Statement& sum = spec.outputs[o];
      const bool first_dimensions = sum.axes.size() <= mean.axes.size() &&
                                    std::equal(sum.axes.begin(), sum.axes.end(), mean.axes.begin());
      if (is_reduce(sum, ReduceKind::kLogSumExp) && first_dimensions &&
          sum.body->bound == mean.body->bound && equal(*sum.body->args[0], *mean.body->args[1])) {
        sums.back() = static_cast<int>(o);
      }
    }
  }
  return sums;
}

std::vector<Split> derive_splits(const Spec& spec) {
  std::vector<Split> splits;
  const bool has_work =
      std::any_of(spec.outputs.begin(), spec.outputs.end(), [&](const Statement& statement) {
        return statement.body &&
               std::none_of(statement.axes.begin(), statement.axes.end(),
                            [&](int axis) { return spec.indices[axis].extent == 0; });
      });
  if (!has_work) return splits;
  const std::vector<int> sums = weight_sums(spec);
  for (size_t index = 0; index < spec.indices.size(); ++index) {
    if (auto split = SplitOf(spec, sums, static_cast<int>(index)).derive())
      splits.push_back(*split);
  }
  return splits;
}

}  // namespace smex::tdl
