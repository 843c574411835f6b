#pragma once

#include <cstdint>

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

}  // namespace smex
