// How much arithmetic a tile of an output asks for, and how much it reads row by row.
#include <bitset>
#include <set>
#include <utility>

#include "tdl/spec.h"

namespace smex::tdl {
namespace {

/// The indices that a value depends on.
using Indices = std::bitset<256>;

/// An expression is evaluated once for all values of the indices that it depends on, as kernels do:
/// the sum of a softmax once a row, not once an element.
class Operations {
 public:
  explicit Operations(std::vector<int64_t> extents) : extents_(std::move(extents)) {}

  /// Adds the operations of the expression; positions of reads are free.
  Indices add(const Expr& expr) {
    switch (expr.kind) {
      case ExprKind::kIndex:
        return Indices().set(expr.index);
      case ExprKind::kRead:
      case ExprKind::kOpaque: {
        Indices all;
        for (const ExprPtr& arg : expr.args) all |= free_of(*arg);
        return all;
      }
      case ExprKind::kReduce:
        return reduce(expr);
      case ExprKind::kCall: {
        if (expr.name == "like") return add(*expr.args[0]);
        Indices all;
        for (const ExprPtr& arg : expr.args) all |= add(*arg);
        count += points(all);
        return all;
      }
      default:
        return {};
    }
  }

  double count = 0;

 private:
  Indices reduce(const Expr& expr) {
    const Expr& body = *expr.args[0];
    Indices all;
    if (expr.reduce == ReduceKind::kSoftmaxMean) {
      const Indices score = add(*expr.args[1]);
      all = add(body) | score;
      // Exponentials and their sum, and the sum of products with them.
      count += 2 * points(score) + 2 * points(all);
    } else if (body.kind == ExprKind::kCall && body.name == "where") {
      // Of all places of the windows that land around an element, one has it.
      all = free_of(body);
      count += landed(*body.args[0], points(all));
      Operations inside(in_one_row(*body.args[0]));
      inside.add(*body.args[1]);
      count += inside.count;
    } else {
      all = add(body);
      count += points(all);
    }
    for (int index : expr.bound) all.reset(index);
    return all;
  }

  /// Divides `points` by the extents of the indices that the condition determines: those on which
  /// windows land, and one that equals a number that is read, as rows of an embedding do.
  double landed(const Expr& condition, double points) const {
    if (condition.kind != ExprKind::kCall) return points;
    if (condition.name == "and") {
      for (const ExprPtr& arg : condition.args) points = landed(*arg, points);
    } else if (condition.name == "lands") {
      points = once(*condition.args[0], points);
    } else if (condition.name == "in_row") {
      points = once(*condition.args[1]->args[0], points);  // a place is in one row
    } else if (condition.name == "eq") {
      for (int side : {0, 1}) {
        const Expr& index = *condition.args[side];
        const Expr& other = *condition.args[1 - side];
        if (index.kind != ExprKind::kIndex || free_of(other)[index.index]) continue;
        return once(index, points);
      }
    }
    return points;
  }

  /// The extents where a place is in one row, whichever it is.
  std::vector<int64_t> in_one_row(const Expr& condition) const {
    std::vector<int64_t> extents = extents_;
    if (condition.kind == ExprKind::kCall && condition.name == "in_row") {
      extents[condition.args[1]->args[0]->index] = 1;
    }
    return extents;
  }

  double once(const Expr& index, double points) const {
    const int64_t extent = extents_[index.index];
    return extent == 0 ? points : points / static_cast<double>(extent);
  }

  Indices free_of(const Expr& expr) const { return Operations(extents_).add(expr); }

  double points(const Indices& indices) const {
    double points = 1;
    for (size_t index = 0; index < extents_.size(); ++index) {
      if (indices[index]) points *= static_cast<double>(extents_[index]);
    }
    return points;
  }

  const std::vector<int64_t> extents_;
};

/// Reads of inputs at rows that tables name.
class Gathers {
 public:
  Gathers(const Spec& spec, const std::vector<int64_t>& extents, const std::vector<int>& itemsizes)
      : spec_(spec), extents_(extents), itemsizes_(itemsizes) {}

  void add(const Expr& expr) {
    if (expr.kind == ExprKind::kRead && !expr.args.empty()) read(expr, *expr.args[0]);
    for (const ExprPtr& arg : expr.args) add(*arg);
  }

  double bytes = 0;

 private:
  void read(const Expr& expr, const Expr& row) {
    const bool is_named = row.kind == ExprKind::kRead && spec_.table(row.input) &&
                          row.args[0]->kind == ExprKind::kIndex;
    if (!is_named || !known_.emplace(expr.input, row.args[0]->index).second) return;
    int64_t width = itemsizes_.at(expr.input);
    for (size_t d = 1; d < expr.args.size(); ++d) {
      const Expr& index = *expr.args[d];
      width *= index.kind == ExprKind::kIndex ? extents_[index.index]
                                              : spec_.input_shapes[expr.input][d];
    }
    constexpr int64_t kLine = 64;
    const int64_t lines = (width + kLine - 1) / kLine;
    bytes += static_cast<double>(extents_[row.args[0]->index]) * static_cast<double>(lines * kLine);
  }

  const Spec& spec_;
  const std::vector<int64_t>& extents_;
  const std::vector<int>& itemsizes_;
  std::set<std::pair<int, int>> known_;  ///< input, and the index of its rows
};

}  // namespace

double gathered_bytes(const Spec& spec, const std::vector<int64_t>& extents,
                      const std::vector<int>& itemsizes) {
  Gathers gathers(spec, extents, itemsizes);
  for (const Statement& statement : spec.outputs) {
    if (statement.body && !spec.tables.empty()) gathers.add(*statement.body);
  }
  return gathers.bytes;
}

double arithmetic(const Spec& spec, const std::vector<int64_t>& extents) {
  Operations operations(extents);
  // The sum of a mean's weights comes with the mean.
  std::vector<bool> comes_along(spec.outputs.size(), false);
  for (int sum : weight_sums(spec)) {
    if (sum >= 0) comes_along[sum] = true;
  }
  for (size_t o = 0; o < spec.outputs.size(); ++o) {
    if (spec.outputs[o].body && !comes_along[o]) operations.add(*spec.outputs[o].body);
  }
  return operations.count;
}

}  // namespace smex::tdl
