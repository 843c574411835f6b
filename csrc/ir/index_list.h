#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/interval.h"

namespace smex {

/// A set of indices of one dimension that never changes: each once, in ascending order. Kept one by
/// one, or as runs of consecutive ones where these are long.
class IndexList {
 public:
  IndexList() = default;
  /// Throws InternalError where they do not ascend.
  explicit IndexList(const std::vector<int64_t>& indices);
  /// All of an interval.
  static IndexList of(const Interval& range);

  int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// The smallest interval that has them all.
  Interval hull() const;
  bool is_interval() const { return hull().size() == size_; }
  /// The index at a position; there are `size()`.
  int64_t at(int64_t position) const;
  /// How many are below `index`, which is its position if it is one of them. O(log n).
  int64_t below(int64_t index) const;
  /// How many lie in a range. O(log n).
  int64_t count(const Interval& range) const;
  bool contains(int64_t index) const { return count({index, index + 1}) == 1; }
  std::vector<int64_t> indices() const;
  bool operator==(const IndexList& other) const;

  /// Runs of consecutive indices in ascending order, clipped to a range.
  class Runs {
   public:
    Runs(const IndexList& list, const Interval& within);
    explicit operator bool() const { return !run_.empty(); }
    const Interval& operator*() const { return run_; }
    const Interval* operator->() const { return &run_; }
    Runs& operator++();

   private:
    void find();

    const IndexList& list_;
    Interval within_, run_;
    size_t next_;  ///< the entry of the list at which the next run begins
  };
  Runs runs() const { return {*this, hull()}; }
  Runs runs(const Interval& within) const { return {*this, within}; }

  /// Makes a list of runs.
  class Builder {
   public:
    /// Begins where the last one ended, or after it.
    void add(const Interval& run);
    IndexList build();

   private:
    std::vector<Interval> runs_;
    int64_t size_ = 0;
  };

 private:
  struct Run {
    Interval range;
    int64_t position = 0;  ///< of its first index
  };
  size_t run_of_position(int64_t position) const;

  int64_t size_ = 0;
  std::vector<int64_t> indices_;  ///< or
  std::vector<Run> runs_;
};

IndexList intersect(const IndexList& a, const IndexList& b);
/// `a` without `b`.
IndexList subtract(const IndexList& a, const IndexList& b);
IndexList unite(const IndexList& a, const IndexList& b);
/// How many both have, without listing them.
int64_t count_common(const IndexList& a, const IndexList& b);
/// The positions in `origin` of the indices of `list`. Throws InternalError where it lacks one.
IndexList positions(const IndexList& list, const IndexList& origin);
/// The indices of `list` at these positions. Throws InternalError where there are fewer.
IndexList at(const IndexList& list, const IndexList& positions);
/// All indices of `list` plus `by`.
IndexList shifted(const IndexList& list, int64_t by);

}  // namespace smex
