#include "partition/search/recursion/steps.h"

#include <cstddef>

namespace smex {

std::vector<int> Steps::others(const std::vector<int>& all, const std::vector<int>& more) const {
  std::vector<int> rest = all;
  const auto begin = rest.begin() + static_cast<std::ptrdiff_t>(first);
  rest.erase(begin, begin + static_cast<std::ptrdiff_t>(count));
  rest.insert(rest.end(), more.begin(), more.end());
  return rest;
}

Mesh Steps::others_and(const Mesh& mesh, size_t chosen) const {
  const auto begin = mesh.begin() + static_cast<std::ptrdiff_t>(first);
  return others(mesh, {begin, begin + static_cast<std::ptrdiff_t>(chosen)});
}

Choices Steps::with(const Choices& all, const Choices& chosen, size_t until) const {
  Choices changed(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(until));
  for (size_t i = 0; i < count && first + i < until; ++i) changed[first + i] = chosen[i];
  return changed;
}

}  // namespace smex
