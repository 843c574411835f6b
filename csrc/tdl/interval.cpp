// Interval analysis: which part of every input a tile of the output reads (Tofu §4.2).
#include <algorithm>
#include <set>

#include "ir/error.h"
#include "tdl/linear.h"
#include "tdl/spec.h"

namespace smex::tdl {
namespace {

Interval clamp(const Interval& range, int64_t size) {
  const int64_t lo = std::clamp<int64_t>(range.lo, 0, size);
  return {lo, std::max(lo, std::clamp<int64_t>(range.hi, 0, size))};
}

Interval hull(const Interval& a, const Interval& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
}

/// What two reads need of a dimension: an interval, or a list of what lies in one.
struct Touched {
  Interval range;
  std::shared_ptr<const IndexList> list;  ///< null: all of the range
};

Touched touched_by(const Region& region, size_t dim) {
  return {region.dims[dim], region.is_listed(dim) ? region.list : nullptr};
}

/// A region of which at most one dimension, the first of them, has a list.
Region region_of(const std::vector<Touched>& dims) {
  Region region;
  for (const Touched& dim : dims) region.dims.push_back(dim.range);
  const auto first = std::find_if(dims.begin(), dims.end(),
                                  [](const Touched& dim) { return dim.list != nullptr; });
  if (first == dims.end() || first->list->is_interval()) return region;
  region.list = first->list;
  region.axis = static_cast<int>(first - dims.begin());
  return region;
}

IndexList listed(const Touched& dim) { return dim.list ? *dim.list : IndexList::of(dim.range); }

Region hull(const Region& a, const Region& b) {
  std::vector<Touched> dims;
  for (size_t dim = 0; dim < a.rank(); ++dim) {
    const Touched one = touched_by(a, dim), other = touched_by(b, dim);
    dims.push_back({hull(one.range, other.range), nullptr});
    if (!one.list && !other.list) continue;
    dims.back().list = std::make_shared<const IndexList>(unite(listed(one), listed(other)));
  }
  return region_of(dims);
}

bool is_call(const Expr& expr, const char* name) {
  return expr.kind == ExprKind::kCall && expr.name == name;
}

/// The ranges inside of `where(condition, …)`: places whose windows cannot land on the range of
/// the index are left out. The first place kept has a window that begins at or before the range
/// where there is one, so that the kept windows cover it but for gaps.
IndexRanges narrow(const Spec& spec, const Expr& condition, const IndexRanges& ranges) {
  if (is_call(condition, "and")) {
    return narrow(spec, *condition.args[1], narrow(spec, *condition.args[0], ranges));
  }
  if (!is_call(condition, "lands")) return ranges;
  const Interval target = ranges[condition.args[0]->index];
  const auto position = linear_form(*condition.args[1], spec.indices);
  IndexRanges result = ranges;
  // At full extent the kernel is called as it was, with its places in the padding too.
  const bool full = target.size() == spec.indices[condition.args[0]->index].extent;
  if (!position || target.empty() || full) return result;
  for (const Term& term : position->terms) {
    if (term.atom.kind != Atom::Kind::kIndex || term.coefficient <= 0) continue;
    Interval& places = result[term.atom.index];
    if (spec.indices[term.atom.index].whole || places.empty()) continue;
    Linear rest = *position;
    std::erase(rest.terms, term);
    const Interval others = range_of(rest, ranges);
    const int64_t reaching = -floor_div(others.hi - 1 - target.lo, term.coefficient);
    const int64_t before = floor_div(target.lo - others.lo, term.coefficient);
    const int64_t last = floor_div(target.hi - 1 - others.lo, term.coefficient);
    places.lo = std::clamp(std::min(reaching, before), places.lo, places.hi - 1);
    places.hi = std::clamp(last + 1, places.lo + 1, places.hi);
  }
  return result;
}

/// Calls `use(index, position, ranges)` for every "lands", with the ranges inside of its "where".
template <typename Use>
void visit_landings(const Spec& spec, const Expr& expr, const IndexRanges& ranges, const Use& use) {
  if (is_call(expr, "where")) {
    const IndexRanges inside = narrow(spec, *expr.args[0], ranges);
    visit_landings(spec, *expr.args[0], inside, use);
    visit_landings(spec, *expr.args[1], inside, use);
    visit_landings(spec, *expr.args[2], ranges, use);
    return;
  }
  if (is_call(expr, "lands")) use(expr.args[0]->index, *expr.args[1], ranges);
  for (const ExprPtr& arg : expr.args) visit_landings(spec, *arg, ranges, use);
}

/// The places of a table of which an index is the number.
std::optional<Linear> table_place(const Spec& spec, const Expr& index) {
  if (index.kind != ExprKind::kRead || !spec.table(index.input)) return std::nullopt;
  return linear_form(*index.args[0], spec.indices);
}

/// A sum of a window's element and its place.
std::optional<Linear> window_form(const Expr& index, const std::vector<Index>& indices) {
  auto linear = linear_form(index, indices);
  if (!linear || linear->terms.size() < 2) return std::nullopt;
  bool element = false;
  for (const Term& term : linear->terms) {
    if (term.atom.kind != Atom::Kind::kIndex) return std::nullopt;
    element = element || indices[term.atom.index].whole;
  }
  return element ? linear : std::nullopt;
}

class Needs {
 public:
  Needs(const Spec& spec, const IndexRanges& ranges)
      : spec_(spec),
        ranges_(ranges),
        needs_(spec.input_shapes.size()),
        seen_(needs_.size(), false) {}

  std::vector<InputNeed> take() {
    for (const Statement& statement : spec_.outputs) {
      if (statement.body) visit(*statement.body, ranges_, /*content=*/true);
    }
    for (size_t input = 0; input < needs_.size(); ++input) {
      if (seen_[input]) continue;
      needs_[input].region = needs_[input].unclamped = Region::whole(spec_.input_shapes[input]);
    }
    return std::move(needs_);
  }

 private:
  void visit(const Expr& expr, const IndexRanges& ranges, bool content) {
    if (expr.kind == ExprKind::kRead) add_read(expr, ranges, content);
    if (is_call(expr, "where")) {
      visit(*expr.args[0], ranges, content);
      visit(*expr.args[1], narrow(spec_, *expr.args[0], ranges), content);
      visit(*expr.args[2], ranges, content);
      return;
    }
    const bool like = is_call(expr, "like");
    for (size_t arg = 0; arg < expr.args.size(); ++arg) {
      visit(*expr.args[arg], ranges, content && !(like && arg == 1));
    }
  }

  Touched touched(const Expr& index, int64_t size, const IndexRanges& ranges) const {
    const Touched all{{0, size}, nullptr};
    if (index.kind == ExprKind::kWhole) return all;
    if (const auto linear = linear_form(index, spec_.indices)) {
      return {range_of(*linear, ranges), nullptr};
    }
    const auto place = table_place(spec_, index);
    if (!place) return all;
    const auto numbers = spec_.table(index.input)->numbers_at(range_of(*place, ranges));
    return {numbers->hull(), numbers};
  }

  /// Whether the read has windows at all their places, in every dimension: the kernel takes the
  /// whole of these dimensions then, though the last elements may lie in no window.
  bool all_windows(const Expr& read, const IndexRanges& ranges) const {
    for (const ExprPtr& index : read.args) {
      const auto linear = window_form(*index, spec_.indices);
      if (!linear) continue;
      for (const Term& term : linear->terms) {
        if (ranges[term.atom.index].size() != spec_.indices[term.atom.index].extent) return false;
      }
    }
    return true;
  }

  void add_read(const Expr& read, const IndexRanges& ranges, bool content) {
    const Shape& shape = spec_.input_shapes.at(read.input);
    if (read.args.size() != shape.size()) {
      throw UserError("input_needs: read of input " + std::to_string(read.input) + ": expected " +
                      std::to_string(shape.size()) + " indices, found " +
                      std::to_string(read.args.size()));
    }
    std::vector<Touched> inside, all;
    const bool whole_windows = all_windows(read, ranges);
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      const Touched range = touched(*read.args[dim], shape[dim], ranges);
      const bool entire = whole_windows && window_form(*read.args[dim], spec_.indices);
      inside.push_back(
          {entire ? Interval{0, shape[dim]} : clamp(range.range, shape[dim]), range.list});
      all.push_back(read.pad ? range : inside.back());
    }
    const Region region = region_of(inside), unclamped = region_of(all);
    InputNeed& need = needs_[read.input];
    need.used = need.used || (content && !spec_.table(read.input));
    need.region = seen_[read.input] ? hull(need.region, region) : region;
    need.unclamped = seen_[read.input] ? hull(need.unclamped, unclamped) : unclamped;
    seen_[read.input] = true;
  }

  const Spec& spec_;
  const IndexRanges& ranges_;
  std::vector<InputNeed> needs_;
  std::vector<bool> seen_;
};

void collect_indices(const Linear& linear, std::set<int>& indices) {
  for (const Term& term : linear.terms) {
    if (term.atom.kind == Atom::Kind::kIndex) {
      indices.insert(term.atom.index);
    } else {
      collect_indices(*term.atom.inner, indices);
    }
  }
}

/// What `Needs` reads the ranges of, found by the same walk.
class Sources {
 public:
  explicit Sources(const Spec& spec) : spec_(spec) {
    for (const Shape& shape : spec.input_shapes) {
      indices_.emplace_back(shape.size());
      lone_.emplace_back(shape.size(), kUnread);
    }
    for (const Statement& statement : spec.outputs) {
      if (statement.body) visit(*statement.body, {});
    }
  }

  std::vector<std::vector<NeedSource>> take() const {
    std::vector<std::vector<NeedSource>> result;
    for (size_t input = 0; input < indices_.size(); ++input) {
      auto& sources = result.emplace_back();
      for (size_t dim = 0; dim < indices_[input].size(); ++dim) {
        const std::set<int>& found = indices_[input][dim];
        sources.push_back({{found.begin(), found.end()}, lone_[input][dim] >= 0});
      }
    }
    return result;
  }

 private:
  static constexpr int kUnread = -2;
  static constexpr int kNotLone = -1;

  /// A "lands" around an expression: narrowing makes the ranges of all these depend on each other.
  using Landing = std::set<int>;

  void landings_of(const Expr& condition, std::vector<Landing>& landings) const {
    if (is_call(condition, "and")) {
      for (const ExprPtr& arg : condition.args) landings_of(*arg, landings);
    }
    if (!is_call(condition, "lands")) return;
    Landing landing{condition.args[0]->index};
    if (const auto form = linear_form(*condition.args[1], spec_.indices)) {
      collect_indices(*form, landing);
    }
    landings.push_back(std::move(landing));
  }

  void visit(const Expr& expr, const std::vector<Landing>& landings) {
    if (expr.kind == ExprKind::kRead) add_read(expr, landings);
    if (is_call(expr, "where")) {
      std::vector<Landing> inside = landings;
      landings_of(*expr.args[0], inside);
      visit(*expr.args[0], landings);
      visit(*expr.args[1], inside);
      visit(*expr.args[2], landings);
      return;
    }
    for (const ExprPtr& arg : expr.args) visit(*arg, landings);
  }

  void add_read(const Expr& read, const std::vector<Landing>& landings) {
    std::set<int> windows;
    for (const ExprPtr& index : read.args) {
      if (const auto form = window_form(*index, spec_.indices)) collect_indices(*form, windows);
    }
    for (size_t dim = 0; dim < read.args.size(); ++dim) {
      const Expr& index = *read.args[dim];
      std::set<int> found;
      if (index.kind != ExprKind::kWhole) {
        if (const auto form = linear_form(index, spec_.indices)) collect_indices(*form, found);
        if (const auto place = table_place(spec_, index)) collect_indices(*place, found);
      }
      if (window_form(index, spec_.indices)) found.insert(windows.begin(), windows.end());
      const size_t own = found.size();
      for (bool changed = true; changed;) {
        changed = false;
        for (const Landing& landing : landings) {
          const bool meets = std::any_of(landing.begin(), landing.end(),
                                         [&](int other) { return found.contains(other); });
          const size_t before = found.size();
          if (meets) found.insert(landing.begin(), landing.end());
          changed |= found.size() != before;
        }
      }
      int& lone = lone_[read.input][dim];
      const bool plain = index.kind == ExprKind::kIndex && own == 1 && found.size() == 1 &&
                         spec_.indices[index.index].extent == spec_.input_shapes[read.input][dim];
      lone = plain && (lone == kUnread || lone == index.index) ? index.index : kNotLone;
      indices_[read.input][dim].insert(found.begin(), found.end());
    }
  }

  const Spec& spec_;
  std::vector<std::vector<std::set<int>>> indices_;  ///< by input and dimension
  std::vector<std::vector<int>> lone_;               ///< the index that alone is the need there
};

}  // namespace

std::vector<std::vector<NeedSource>> need_sources(const Spec& spec) { return Sources(spec).take(); }

std::vector<InputNeed> input_needs(const Spec& spec, const IndexRanges& ranges) {
  if (ranges.size() != spec.indices.size()) {
    throw UserError("input_needs: expected " + std::to_string(spec.indices.size()) +
                    " index ranges, found " + std::to_string(ranges.size()));
  }
  const IndexRanges narrowed = with_rows(spec, ranges);
  return Needs(spec, narrowed).take();
}

Region output_region(const Spec& spec, int output, const IndexRanges& ranges) {
  if (output < 0 || output >= static_cast<int>(spec.outputs.size())) {
    throw UserError("output_region: expected an output below " +
                    std::to_string(spec.outputs.size()) + ", found " + std::to_string(output));
  }
  if (ranges.size() != spec.indices.size()) {
    throw UserError("output_region: expected " + std::to_string(spec.indices.size()) +
                    " index ranges, found " + std::to_string(ranges.size()));
  }
  Region region;
  for (int axis : spec.outputs[output].axes) region.dims.push_back(ranges[axis]);
  return region;
}

std::vector<std::optional<Interval>> landings(const Spec& spec, int output,
                                              const IndexRanges& ranges) {
  const Statement& statement = spec.outputs.at(output);
  std::vector<std::optional<Interval>> result(statement.axes.size());
  if (!statement.body) return result;
  visit_landings(spec, *statement.body, ranges,
                 [&](int index, const Expr& position, const IndexRanges& inside) {
                   const auto& axes = statement.axes;
                   const auto axis = std::find(axes.begin(), axes.end(), index);
                   const auto form = linear_form(position, spec.indices);
                   if (axis == axes.end() || !form) return;
                   result[axis - axes.begin()] = range_of(*form, inside);
                 });
  return result;
}

bool has_landings(const Spec& spec) {
  bool found = false;
  for (const Statement& statement : spec.outputs) {
    if (!statement.body) continue;
    visit_landings(spec, *statement.body, full_ranges(spec), [&](auto&&...) { found = true; });
  }
  return found;
}

IndexRanges full_ranges(const Spec& spec) {
  IndexRanges ranges;
  for (const Index& index : spec.indices) ranges.push_back({0, index.extent});
  return ranges;
}

}  // namespace smex::tdl
