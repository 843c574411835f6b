#include "ir/region.h"

#include <algorithm>
#include <utility>

#include "ir/error.h"

namespace smex {
namespace {

IndexList indices_of(const Region& region, size_t dim) {
  return region.is_listed(dim) ? *region.list : IndexList::of(region.dims[dim]);
}

void set_dim(Region& region, size_t dim, IndexList indices) {
  const bool has_other = region.list && !region.is_listed(dim);
  if (region.is_listed(dim)) {
    region.list.reset();
    region.axis = -1;
  }
  region.dims[dim] = indices.hull();
  if (indices.is_interval()) return;
  if (has_other) throw InternalError("region " + region.str() + ": two dimensions are listed");
  region.axis = static_cast<int>(dim);
  region.list = std::make_shared<const IndexList>(std::move(indices));
}

/// Dimension `dim` of `to` becomes that of `from`.
void take_dim(Region& to, const Region& from, size_t dim) {
  if (to.is_listed(dim)) {
    to.list.reset();
    to.axis = -1;
  }
  to.dims[dim] = from.dims[dim];
  if (!from.is_listed(dim)) return;
  if (to.list) throw InternalError("region " + to.str() + ": two dimensions are listed");
  to.list = from.list;
  to.axis = from.axis;
}

}  // namespace

Interval intersect(const Interval& a, const Interval& b) {
  Interval both{std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
  if (both.hi < both.lo) both.hi = both.lo;
  return both;
}

Region Region::whole(const Shape& shape) {
  Region region;
  region.dims.reserve(shape.size());
  for (int64_t size : shape) region.dims.push_back({0, size});
  return region;
}

Region Region::listed(std::vector<Interval> dims, size_t axis, IndexList list) {
  Region region{std::move(dims)};
  set_dim(region, axis, std::move(list));
  return region;
}

int64_t Region::numel() const {
  int64_t count = 1;
  for (size_t d = 0; d < dims.size(); ++d) count *= size(d);
  return count;
}

Shape Region::shape() const {
  Shape sizes;
  sizes.reserve(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) sizes.push_back(size(d));
  return sizes;
}

bool Region::contains(const Region& other) const {
  if (other.empty()) return true;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!dims[d].contains(other.dims[d])) return false;
    if (!is_listed(d)) continue;
    const bool has_all = other.is_listed(d) ? count_common(*list, *other.list) == other.size(d)
                                            : list->count(other.dims[d]) == other.size(d);
    if (!has_all) return false;
  }
  return true;
}

Region Region::relative_to(const Region& origin) const {
  Region moved = *this;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (origin.is_listed(d)) {
      set_dim(moved, d, positions(indices_of(*this, d), *origin.list));
    } else if (is_listed(d)) {
      if (origin.dims[d].lo != 0) set_dim(moved, d, shifted(*list, -origin.dims[d].lo));
    } else {
      moved.dims[d] = {dims[d].lo - origin.dims[d].lo, dims[d].hi - origin.dims[d].lo};
    }
  }
  return moved;
}

Region Region::absolute_in(const Region& origin) const {
  Region moved = *this;
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t lo = origin.dims[d].lo;
    if (origin.is_listed(d)) {
      set_dim(moved, d, at(*origin.list, indices_of(*this, d)));
    } else if (is_listed(d)) {
      if (lo != 0) set_dim(moved, d, shifted(*list, lo));
    } else {
      moved.dims[d] = {dims[d].lo + lo, dims[d].hi + lo};
    }
  }
  return moved;
}

std::string Region::str() const {
  std::string text = "[";
  for (size_t d = 0; d < dims.size(); ++d) {
    if (d > 0) text += ", ";
    text += std::to_string(dims[d].lo) + ":" + std::to_string(dims[d].hi);
    if (is_listed(d)) {
      text += " (" + std::to_string(size(d)) + " of " + std::to_string(dims[d].size()) + ")";
    }
  }
  return text + "]";
}

bool Region::operator==(const Region& other) const {
  if (dims != other.dims || axis != other.axis) return false;
  return list == other.list || (list && other.list && *list == *other.list);
}

Region intersect(const Region& a, const Region& b) {
  if (a.rank() != b.rank()) {
    throw InternalError("intersect: regions " + a.str() + " and " + b.str() + " differ in rank");
  }
  Region both;
  both.dims.resize(a.rank());
  for (size_t d = 0; d < a.rank(); ++d) {
    if (!a.is_listed(d) && !b.is_listed(d)) {
      both.dims[d] = intersect(a.dims[d], b.dims[d]);
    } else if (a.is_listed(d) && b.dims[d].contains(a.dims[d]) && !b.is_listed(d)) {
      take_dim(both, a, d);
    } else if (b.is_listed(d) && a.dims[d].contains(b.dims[d]) && !a.is_listed(d)) {
      take_dim(both, b, d);
    } else {
      set_dim(both, d, intersect(indices_of(a, d), indices_of(b, d)));
    }
  }
  return both;
}

std::vector<Region> subtract(const Region& a, const Region& b) {
  if (a.empty()) return {};
  const Region both = intersect(a, b);
  if (both.empty()) return {a};
  std::vector<Region> rest;
  Region core = a;  // shrinks towards `both`, one dimension at a time
  for (size_t d = 0; d < a.rank(); ++d) {
    const auto add = [&](const Interval& range) {
      if (range.empty()) return;
      rest.push_back(core);
      rest.back().dims[d] = range;
    };
    if (core.is_listed(d) || both.is_listed(d)) {
      IndexList others = subtract(indices_of(core, d), indices_of(both, d));
      if (!others.empty()) {
        rest.push_back(core);
        set_dim(rest.back(), d, std::move(others));
      }
    } else {
      add({core.dims[d].lo, both.dims[d].lo});
      add({both.dims[d].hi, core.dims[d].hi});
    }
    take_dim(core, both, d);
  }
  return rest;
}

}  // namespace smex
