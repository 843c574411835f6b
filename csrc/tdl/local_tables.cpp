#include "tdl/local_tables.h"

#include <algorithm>
#include <string>

#include "ir/error.h"
#include "tdl/linear.h"

namespace smex::tdl {
namespace {

using Numbers = std::vector<int64_t>;

/// Where numbers are in a dimension of a local tensor.
class Places {
 public:
  Places(const Region& frame, size_t dim)
      : range_(frame.dims[dim]), list_(frame.is_listed(dim) ? frame.list.get() : nullptr) {}

  /// Turns numbers into places.
  Numbers of(Numbers numbers) const {
    if (!list_) {
      for (int64_t& number : numbers) number -= range_.lo;
      return numbers;
    }
    constexpr int64_t kMap = 8;  // a map of all numbers is worth it from an eighth of them on
    if (range_.size() > kMap * static_cast<int64_t>(numbers.size())) {
      for (int64_t& number : numbers) number = list_->below(number);
      return numbers;
    }
    Numbers place_of(range_.size(), 0);
    int64_t place = 0;
    for (auto run = list_->runs(); run; ++run) {
      for (int64_t n = run->lo; n < run->hi; ++n) place_of[n - range_.lo] = place++;
    }
    for (int64_t& number : numbers) number = place_of[number - range_.lo];
    return numbers;
  }

 private:
  const Interval range_;
  const IndexList* list_;
};

class LocalTables {
 public:
  LocalTables(const Spec& spec, const IndexRanges& ranges, const std::vector<Region>& frames)
      : spec_(spec), ranges_(with_rows(spec, ranges)), frames_(frames) {}

  std::vector<std::optional<Numbers>> take() {
    found_.resize(spec_.input_shapes.size());
    for (const Statement& statement : spec_.outputs) {
      if (statement.body) visit(*statement.body);
    }
    // Of these only how many there are matters.
    for (const Expr* read : shapes_) {
      if (!found_[read->input]) found_[read->input] = numbers_of(*read);
    }
    return std::move(found_);
  }

 private:
  void visit(const Expr& expr) {
    if (expr.kind == ExprKind::kRead && spec_.table(expr.input)) shapes_.push_back(&expr);
    if (expr.kind == ExprKind::kRead) add_indices(expr);
    if (expr.kind == ExprKind::kCall && expr.name == "in_row") {
      add_bounds(expr);
      return;
    }
    for (const ExprPtr& arg : expr.args) visit(*arg);
  }

  void add_indices(const Expr& read) {
    for (size_t dim = 0; dim < read.args.size(); ++dim) {
      const Expr& index = *read.args[dim];
      if (index.kind != ExprKind::kRead || !spec_.table(index.input)) continue;
      set(index.input, Places(frames_[read.input], dim).of(numbers_of(index)));
    }
  }

  /// What a tile reads of a table, where this is read at places of another one all that it has.
  Numbers numbers_of(const Expr& read) const {
    Numbers numbers;
    const Table& table = *spec_.table(read.input);
    const auto add = [&](const Interval& places) {
      for (int64_t n = places.lo; n < places.hi; ++n) numbers.push_back(table[n]);
    };
    const Region& frame = frames_[read.input];
    if (const auto place = linear_form(*read.args[0], spec_.indices)) {
      add(range_of(*place, ranges_));
    } else if (frame.is_listed(0)) {
      for (auto run = frame.list->runs(); run; ++run) add(*run);
    } else {
      add(frame.dims[0]);
    }
    return numbers;
  }

  void add_bounds(const Expr& call) {
    const Expr& bound = *call.args[1];
    const Table* table = spec_.table(bound.input);
    if (!table) return;
    const Interval &rows = ranges_[bound.args[0]->index], &places = ranges_[call.args[0]->index];
    Numbers bounds;
    bounds.reserve(rows.size() + 1);
    for (int64_t row = rows.lo; row <= rows.hi; ++row) {
      bounds.push_back(std::clamp((*table)[row] - places.lo, int64_t{0}, places.size()));
    }
    set(bound.input, std::move(bounds));
  }

  void set(int input, Numbers numbers) {
    std::optional<Numbers>& found = found_[input];
    if (found && *found != numbers) {
      throw InternalError("local_tables: input " + std::to_string(input) +
                          " tells indices of tensors that a tile has in different parts");
    }
    found = std::move(numbers);
  }

  const Spec& spec_;
  const IndexRanges ranges_;
  const std::vector<Region>& frames_;
  std::vector<std::optional<Numbers>> found_;
  std::vector<const Expr*> shapes_;  ///< reads of tables themselves
};

}  // namespace

std::vector<std::optional<Numbers>> local_tables(const Spec& spec, const IndexRanges& ranges,
                                                 const std::vector<Region>& frames) {
  return LocalTables(spec, ranges, frames).take();
}

}  // namespace smex::tdl
