#include "ir/index_list.h"

#include <algorithm>
#include <string>

#include "ir/error.h"

namespace smex {
namespace {

/// Runs of this many indices on average are kept as such: a run takes as much memory as three.
constexpr int64_t kLong = 4;

/// Calls `visit(run)` for what both have, in ascending order.
template <typename Visit>
void for_each_common(const IndexList& a, const IndexList& b, const Visit& visit) {
  const Interval within = intersect(a.hull(), b.hull());
  auto one = a.runs(within), other = b.runs(within);
  while (one && other) {
    const Interval both = intersect(*one, *other);
    if (!both.empty()) visit(both);
    one->hi < other->hi ? ++one : ++other;
  }
}

}  // namespace

IndexList::IndexList(const std::vector<int64_t>& indices) {
  Builder builder;
  for (const int64_t index : indices) builder.add({index, index + 1});
  *this = builder.build();
}

IndexList IndexList::of(const Interval& range) {
  Builder builder;
  builder.add(range);
  return builder.build();
}

Interval IndexList::hull() const {
  if (empty()) return {};
  if (!runs_.empty()) return {runs_.front().range.lo, runs_.back().range.hi};
  return {indices_.front(), indices_.back() + 1};
}

size_t IndexList::run_of_position(int64_t position) const {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), position,
                                      [](int64_t p, const Run& run) { return p < run.position; });
  return static_cast<size_t>(after - runs_.begin()) - 1;
}

int64_t IndexList::at(int64_t position) const {
  if (position < 0 || position >= size_) {
    throw InternalError("IndexList: position " + std::to_string(position) + " of " +
                        std::to_string(size_) + " indices");
  }
  if (runs_.empty()) return indices_[position];
  const Run& run = runs_[run_of_position(position)];
  return run.range.lo + position - run.position;
}

int64_t IndexList::below(int64_t index) const {
  if (runs_.empty()) {
    return std::lower_bound(indices_.begin(), indices_.end(), index) - indices_.begin();
  }
  const auto after = std::lower_bound(runs_.begin(), runs_.end(), index,
                                      [](const Run& run, int64_t i) { return run.range.lo < i; });
  if (after == runs_.begin()) return 0;
  const Run& run = *(after - 1);
  return run.position + std::min(index, run.range.hi) - run.range.lo;
}

int64_t IndexList::count(const Interval& range) const {
  return range.empty() ? 0 : below(range.hi) - below(range.lo);
}

std::vector<int64_t> IndexList::indices() const {
  if (runs_.empty()) return indices_;
  std::vector<int64_t> all;
  all.reserve(size_);
  for (const Run& run : runs_) {
    for (int64_t index = run.range.lo; index < run.range.hi; ++index) all.push_back(index);
  }
  return all;
}

bool IndexList::operator==(const IndexList& other) const {
  // Equal sets are kept alike.
  return size_ == other.size_ && indices_ == other.indices_ &&
         std::equal(runs_.begin(), runs_.end(), other.runs_.begin(), other.runs_.end(),
                    [](const Run& a, const Run& b) { return a.range == b.range; });
}

IndexList::Runs::Runs(const IndexList& list, const Interval& within)
    : list_(list), within_(intersect(within, list.hull())) {
  const int64_t position = list.below(within_.lo);
  next_ = list.runs_.empty() || position == list.size_ ? static_cast<size_t>(position)
                                                       : list.run_of_position(position);
  find();
}

void IndexList::Runs::find() {
  run_ = {};
  if (within_.empty()) return;
  if (!list_.runs_.empty()) {
    if (next_ < list_.runs_.size()) run_ = intersect(list_.runs_[next_++].range, within_);
    return;
  }
  const auto& indices = list_.indices_;
  if (next_ == indices.size() || indices[next_] >= within_.hi) return;
  const int64_t first = indices[next_++];
  int64_t end = first + 1;
  for (; next_ < indices.size() && indices[next_] == end && end < within_.hi; ++next_) ++end;
  run_ = {first, end};
}

IndexList::Runs& IndexList::Runs::operator++() {
  find();
  return *this;
}

void IndexList::Builder::add(const Interval& run) {
  if (run.empty()) return;
  size_ += run.size();
  if (runs_.empty() || runs_.back().hi < run.lo) {
    runs_.push_back(run);
  } else if (runs_.back().hi == run.lo) {
    runs_.back().hi = run.hi;
  } else {
    throw InternalError("IndexList: " + std::to_string(run.lo) + " comes after " +
                        std::to_string(runs_.back().hi - 1));
  }
}

IndexList IndexList::Builder::build() {
  IndexList list;
  list.size_ = size_;
  if (size_ >= kLong * static_cast<int64_t>(runs_.size())) {
    list.runs_.reserve(runs_.size());
    int64_t position = 0;
    for (const Interval& run : runs_) {
      list.runs_.push_back({run, position});
      position += run.size();
    }
  } else {
    list.indices_.reserve(size_);
    for (const Interval& run : runs_) {
      for (int64_t index = run.lo; index < run.hi; ++index) list.indices_.push_back(index);
    }
  }
  return list;
}

IndexList intersect(const IndexList& a, const IndexList& b) {
  IndexList::Builder both;
  for_each_common(a, b, [&](const Interval& run) { both.add(run); });
  return both.build();
}

IndexList subtract(const IndexList& a, const IndexList& b) {
  IndexList::Builder rest;
  auto cut = b.runs(a.hull());
  for (auto run = a.runs(); run; ++run) {
    int64_t lo = run->lo;
    for (; cut && cut->lo < run->hi; ++cut) {
      rest.add({lo, std::min(cut->lo, run->hi)});
      lo = std::max(lo, cut->hi);
      if (cut->hi > run->hi) break;  // it cuts the next run, too
    }
    rest.add({lo, run->hi});
  }
  return rest.build();
}

IndexList unite(const IndexList& a, const IndexList& b) {
  IndexList::Builder all;
  Interval open;
  const auto add = [&](const Interval& run) {
    if (open.empty()) {
      open = run;
    } else if (run.lo <= open.hi) {
      open.hi = std::max(open.hi, run.hi);
    } else {
      all.add(open);
      open = run;
    }
  };
  auto one = a.runs(), other = b.runs();
  while (one || other) {
    auto& first = !other || (one && one->lo <= other->lo) ? one : other;
    add(*first);
    ++first;
  }
  all.add(open);
  return all.build();
}

int64_t count_common(const IndexList& a, const IndexList& b) {
  int64_t count = 0;
  for_each_common(a, b, [&](const Interval& run) { count += run.size(); });
  return count;
}

IndexList positions(const IndexList& list, const IndexList& origin) {
  IndexList::Builder found;
  for_each_common(list, origin, [&](const Interval& run) {
    const int64_t first = origin.below(run.lo);
    found.add({first, first + run.size()});
  });
  IndexList all = found.build();
  if (all.size() != list.size()) {
    throw InternalError("IndexList: " + std::to_string(list.size() - all.size()) + " of " +
                        std::to_string(list.size()) + " indices are not in the other list");
  }
  return all;
}

IndexList at(const IndexList& list, const IndexList& positions) {
  if (positions.hull().hi > list.size()) {
    throw InternalError("IndexList: position " + std::to_string(positions.hull().hi - 1) + " of " +
                        std::to_string(list.size()) + " indices");
  }
  IndexList::Builder found;
  int64_t position = 0;
  auto run = list.runs();
  for (auto wanted = positions.runs(); wanted; ++wanted) {
    for (int64_t next = wanted->lo; next < wanted->hi;) {
      for (; position + run->size() <= next; ++run) position += run->size();
      const int64_t first = run->lo + next - position;
      const int64_t count = std::min(run->hi - first, wanted->hi - next);
      found.add({first, first + count});
      next += count;
    }
  }
  return found.build();
}

IndexList shifted(const IndexList& list, int64_t by) {
  IndexList::Builder moved;
  for (auto run = list.runs(); run; ++run) moved.add({run->lo + by, run->hi + by});
  return moved.build();
}

}  // namespace smex
