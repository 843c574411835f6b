#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace smex {

/// A half-open interval `[lo, hi)` of one dimension; empty when `hi <= lo`.
struct Interval {
  int64_t lo = 0;
  int64_t hi = 0;

  int64_t size() const { return hi > lo ? hi - lo : 0; }
  bool empty() const { return hi <= lo; }
  bool contains(const Interval& other) const {
    return other.empty() || (lo <= other.lo && other.hi <= hi);
  }
  bool operator==(const Interval&) const = default;
};

Interval intersect(const Interval& a, const Interval& b);

using Shape = std::vector<int64_t>;

/// A box of index space, one interval per dimension. A region of rank 0 holds one element.
struct Region {
  std::vector<Interval> dims;

  /// The whole of a tensor of this shape.
  static Region whole(const Shape& shape);

  size_t rank() const { return dims.size(); }
  int64_t numel() const;
  bool empty() const { return numel() == 0; }
  Shape shape() const;
  bool contains(const Region& other) const;
  /// This region in coordinates that start at `origin`'s lower corner.
  Region relative_to(const Region& origin) const;
  /// `[0:4, 2:8]`.
  std::string str() const;
  bool operator==(const Region&) const = default;
};

Region intersect(const Region& a, const Region& b);

/// `a` without `b`, as at most 2·rank disjoint boxes.
std::vector<Region> subtract(const Region& a, const Region& b);

}  // namespace smex
