#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/index_list.h"
#include "ir/interval.h"

namespace smex {

using Shape = std::vector<int64_t>;

/// A part of index space: the product of one interval per dimension, or, of at most one dimension,
/// of a list of indices. A region of rank 0 holds one element.
struct Region {
  std::vector<Interval> dims;
  /// What of `dims[axis]`, which is its hull, the region has; null: all. Never an interval.
  std::shared_ptr<const IndexList> list = nullptr;
  int axis = -1;

  /// The whole of a tensor of this shape.
  static Region whole(const Shape& shape);
  /// A box with only these indices of one dimension.
  static Region listed(std::vector<Interval> dims, size_t axis, IndexList list);

  size_t rank() const { return dims.size(); }
  bool is_listed(size_t dim) const { return list && axis == static_cast<int>(dim); }
  /// Indices of a dimension.
  int64_t size(size_t dim) const { return is_listed(dim) ? list->size() : dims[dim].size(); }
  int64_t numel() const;
  bool empty() const { return numel() == 0; }
  Shape shape() const;
  bool contains(const Region& other) const;
  /// This region in coordinates that start at `origin`'s lower corner and, of a dimension of which
  /// `origin` has a list, are positions in it. Throws InternalError where the list lacks one.
  Region relative_to(const Region& origin) const;
  /// The inverse: where what has these coordinates in `origin` lies.
  Region absolute_in(const Region& origin) const;
  /// `[0:4, 2:8]`; of a list `0:4 (3 of 4)`.
  std::string str() const;
  bool operator==(const Region& other) const;
};

/// What both have. Throws InternalError where ranks differ, or the result has two lists.
Region intersect(const Region& a, const Region& b);

/// `a` without `b`, as at most 2·rank disjoint regions.
std::vector<Region> subtract(const Region& a, const Region& b);

}  // namespace smex
