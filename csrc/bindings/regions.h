#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "ir/error.h"
#include "ir/region.h"

namespace smex::bindings {

/// A box as Python sees it: (lo, hi) by dimension.
using Bounds = std::vector<std::pair<int64_t, int64_t>>;

inline std::vector<Interval> to_box(const Bounds& bounds) {
  std::vector<Interval> box;
  for (const auto& [lo, hi] : bounds) box.push_back({lo, hi});
  return box;
}

/// A dimension, and which of its indices count.
using Listed = std::optional<std::pair<size_t, std::vector<int64_t>>>;

inline Region to_region(const Bounds& bounds, const Listed& listed) {
  if (!listed) return Region{to_box(bounds)};
  if (listed->first >= bounds.size()) throw UserError("a region has no such dimension");
  return Region::listed(to_box(bounds), listed->first, IndexList(listed->second));
}

/// Nothing for a box.
inline Listed to_listed(const Region& region) {
  if (!region.list) return std::nullopt;
  return std::pair(static_cast<size_t>(region.axis), region.list->indices());
}

inline Bounds to_bounds(const std::vector<Interval>& box) {
  Bounds bounds;
  for (const Interval& dim : box) bounds.emplace_back(dim.lo, dim.hi);
  return bounds;
}

}  // namespace smex::bindings
