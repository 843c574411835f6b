#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <stdexcept>
#include <vector>

#include "ir/region.h"

namespace smex::test {

/// A small dense array, the oracle of everything that is cut and moved.
struct Dense {
  Shape shape;
  std::vector<double> data;

  explicit Dense(Shape of = {}, double fill = 0)
      : shape(std::move(of)), data(Region::whole(shape).numel(), fill) {}

  double& at(const std::vector<int64_t>& point) {
    int64_t position = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (point[d] < 0 || point[d] >= shape[d]) throw std::out_of_range("Dense::at");
      position = position * shape[d] + point[d];
    }
    return data.at(position);
  }
  double at(const std::vector<int64_t>& point) const { return const_cast<Dense&>(*this).at(point); }
};

/// Calls `visit(point)` for every point of the region, the last dimension fastest.
inline void for_each_point(const Region& region,
                           const std::function<void(const std::vector<int64_t>&)>& visit) {
  if (region.empty()) return;
  std::vector<int64_t> point;
  for (const Interval& dim : region.dims) point.push_back(dim.lo);
  while (true) {
    if (!region.list || region.list->contains(point[region.axis])) visit(point);
    int d = static_cast<int>(point.size()) - 1;
    while (d >= 0 && ++point[d] == region.dims[d].hi) {
      point[d] = region.dims[d].lo;
      --d;
    }
    if (d < 0) return;
  }
}

/// `point` of `from` in the coordinates of `to`, a region of the same shape.
inline std::vector<int64_t> translated(std::vector<int64_t> point, const Region& from,
                                       const Region& to) {
  for (size_t d = 0; d < point.size(); ++d) {
    const int64_t position =
        from.is_listed(d) ? from.list->below(point[d]) : point[d] - from.dims[d].lo;
    point[d] = to.is_listed(d) ? to.list->at(position) : to.dims[d].lo + position;
  }
  return point;
}

/// The content of a region of the array.
inline Dense slice(const Dense& array, const Region& region) {
  Dense part(region.shape());
  const Region own = Region::whole(part.shape);
  for_each_point(region, [&](const auto& p) { part.at(translated(p, region, own)) = array.at(p); });
  return part;
}

/// Small integers: sums and products of them are exact in doubles, in any order.
inline Dense random_dense(std::mt19937& random, const Shape& shape) {
  Dense array(shape);
  for (double& x : array.data) x = static_cast<double>(random() % 7) - 3;
  return array;
}

}  // namespace smex::test
