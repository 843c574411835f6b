#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ir/region.h"

namespace smex::bindings {

/// A box as Python sees it: (lo, hi) by dimension.
using Bounds = std::vector<std::pair<int64_t, int64_t>>;

inline std::vector<Interval> to_box(const Bounds& bounds) {
  std::vector<Interval> box;
  for (const auto& [lo, hi] : bounds) box.push_back({lo, hi});
  return box;
}

inline Bounds to_bounds(const std::vector<Interval>& box) {
  Bounds bounds;
  for (const Interval& dim : box) bounds.emplace_back(dim.lo, dim.hi);
  return bounds;
}

}  // namespace smex::bindings
