#include "ir/region.h"

#include <algorithm>

#include "ir/error.h"

namespace smex {

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

int64_t Region::numel() const {
  int64_t count = 1;
  for (const Interval& dim : dims) count *= dim.size();
  return count;
}

Shape Region::shape() const {
  Shape sizes;
  sizes.reserve(dims.size());
  for (const Interval& dim : dims) sizes.push_back(dim.size());
  return sizes;
}

bool Region::contains(const Region& other) const {
  if (other.empty()) return true;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!dims[d].contains(other.dims[d])) return false;
  }
  return true;
}

Region Region::relative_to(const Region& origin) const {
  Region shifted = *this;
  for (size_t d = 0; d < dims.size(); ++d) {
    shifted.dims[d].lo -= origin.dims[d].lo;
    shifted.dims[d].hi -= origin.dims[d].lo;
  }
  return shifted;
}

std::string Region::str() const {
  std::string text = "[";
  for (size_t d = 0; d < dims.size(); ++d) {
    if (d > 0) text += ", ";
    text += std::to_string(dims[d].lo) + ":" + std::to_string(dims[d].hi);
  }
  return text + "]";
}

Region intersect(const Region& a, const Region& b) {
  if (a.rank() != b.rank()) {
    throw InternalError("intersect: regions " + a.str() + " and " + b.str() + " differ in rank");
  }
  Region both;
  both.dims.reserve(a.rank());
  for (size_t d = 0; d < a.rank(); ++d) both.dims.push_back(intersect(a.dims[d], b.dims[d]));
  return both;
}

std::vector<Region> subtract(const Region& a, const Region& b) {
  if (a.empty()) return {};
  const Region both = intersect(a, b);
  if (both.empty()) return {a};
  std::vector<Region> rest;
  Region core = a;  // shrinks towards `both`, one dimension at a time
  for (size_t d = 0; d < a.rank(); ++d) {
    if (core.dims[d].lo < both.dims[d].lo) {
      Region below = core;
      below.dims[d].hi = both.dims[d].lo;
      rest.push_back(std::move(below));
    }
    if (both.dims[d].hi < core.dims[d].hi) {
      Region above = core;
      above.dims[d].lo = both.dims[d].hi;
      rest.push_back(std::move(above));
    }
    core.dims[d] = both.dims[d];
  }
  return rest;
}

}  // namespace smex
