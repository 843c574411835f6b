// What tables tell of an operator's indices.
#include <algorithm>

#include "tdl/linear.h"
#include "tdl/spec.h"

namespace smex::tdl {
namespace {

/// Calls `visit` for every "in_row" of an expression.
template <typename Visit>
void visit_rows(const Expr& expr, const Visit& visit) {
  if (expr.kind == ExprKind::kCall && expr.name == "in_row") visit(expr);
  for (const ExprPtr& arg : expr.args) visit_rows(*arg, visit);
}

/// How inputs are used, as bits: as numbers, or as indices, bounds and shapes.
enum Use { kNumber = 1, kIndex = 2 };

class Uses {
 public:
  explicit Uses(const Spec& spec) : found(spec.input_shapes.size(), 0) {
    for (const Statement& statement : spec.outputs) {
      if (statement.body) visit(*statement.body, kNumber);
    }
  }
  std::vector<int> found;  ///< by input

 private:
  void visit(const Expr& expr, Use use) {
    const bool is_read = expr.kind == ExprKind::kRead;
    if (is_read) found[expr.input] |= use;
    const bool is_call = expr.kind == ExprKind::kCall;
    const bool is_rows = is_call && expr.name == "in_row";
    for (size_t n = 0; n < expr.args.size(); ++n) {
      const bool is_shape = is_call && expr.name == "like" && n == 1;
      visit(*expr.args[n], is_read || is_rows || is_shape ? kIndex : use);
    }
  }
};

bool ascends_within(const Table& bounds, int64_t end) {
  for (int64_t row = 0; row + 1 < bounds.size(); ++row) {
    if (bounds[row] > bounds[row + 1]) return false;
  }
  return bounds.size() > 0 && bounds[0] >= 0 && bounds[bounds.size() - 1] <= end;
}

bool fits(const Spec& spec, const Expr& expr, int input, const Table& table) {
  if (expr.kind == ExprKind::kCall && expr.name == "in_row" && expr.args[1]->input == input) {
    return ascends_within(table, spec.indices[expr.args[0]->index].extent);
  }
  for (size_t n = 0; n < expr.args.size(); ++n) {
    const Expr& arg = *expr.args[n];
    const bool is_index = expr.kind == ExprKind::kRead && arg.kind == ExprKind::kRead;
    if (is_index && arg.input == input && !table.is_within(spec.input_shapes[expr.input][n])) {
      return false;
    }
    if (!fits(spec, arg, input, table)) return false;
  }
  return true;
}

}  // namespace

bool fits(const Spec& spec, int input, const Table& table) {
  bool does = true;
  for (const Statement& statement : spec.outputs) {
    if (statement.body) does = does && fits(spec, *statement.body, input, table);
  }
  return does;
}

Interval RowPlaces::rows_of(const Interval& rows, const Interval& places) const {
  if (rows.empty() || places.empty()) return {rows.lo, rows.lo};
  // The first row that ends after the first place, and the first that begins after the last.
  const auto first_above = [&](Interval range, int64_t place) {
    while (!range.empty()) {
      const int64_t middle = range.lo + range.size() / 2;
      if ((*bounds)[middle] > place) {
        range.hi = middle;
      } else {
        range.lo = middle + 1;
      }
    }
    return range.lo;
  };
  const int64_t lo = first_above({rows.lo + 1, rows.hi}, places.lo) - 1;
  return {lo, first_above({lo + 1, rows.hi}, places.hi - 1)};
}

std::vector<RowPlaces> row_places(const Spec& spec) {
  std::vector<RowPlaces> found;
  if (spec.tables.empty()) return found;
  const auto is_axis = [&](int index) {
    return std::any_of(spec.outputs.begin(), spec.outputs.end(), [&](const Statement& statement) {
      return std::count(statement.axes.begin(), statement.axes.end(), index) > 0;
    });
  };
  for (const Statement& statement : spec.outputs) {
    if (!statement.body) continue;
    visit_rows(*statement.body, [&](const Expr& call) {
      const Expr& bound = *call.args[1];
      const int row = bound.args[0]->index;
      const RowPlaces places{call.args[0]->index, row, spec.table(bound.input), !is_axis(row)};
      const bool is_known = std::any_of(found.begin(), found.end(), [&](const RowPlaces& other) {
        return other.place == places.place && other.row == places.row &&
               other.bounds == places.bounds;
      });
      if (places.bounds && !is_known) found.push_back(places);
    });
  }
  return found;
}

bool has_rows(const Spec& spec) {
  bool found = false;
  for (const Statement& statement : spec.outputs) {
    if (statement.body) visit_rows(*statement.body, [&](const Expr&) { found = true; });
  }
  return found;
}

IndexRanges with_rows(const Spec& spec, IndexRanges ranges) {
  for (const RowPlaces& rows : row_places(spec)) {
    ranges[rows.place] = intersect(ranges[rows.place], rows.of(ranges[rows.row]));
    if (rows.rows_follow) ranges[rows.row] = rows.rows_of(ranges[rows.row], ranges[rows.place]);
  }
  return ranges;
}

std::vector<int> table_inputs(const Spec& spec) {
  const Uses uses(spec);
  std::vector<int> inputs;
  for (size_t input = 0; input < uses.found.size(); ++input) {
    const bool is_vector = spec.input_shapes[input].size() == 1;
    if (is_vector && uses.found[input] == kIndex) inputs.push_back(static_cast<int>(input));
  }
  return inputs;
}

}  // namespace smex::tdl
