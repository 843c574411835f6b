#pragma once

#include <cstddef>
#include <vector>

#include "partition/plan/plan.h"

namespace smex {

/// The steps of a mesh that are chosen together: `count` of them, from `first` on. What a plan does
/// in all others is given.
struct Steps {
  size_t first = 0;
  size_t count = 1;

  /// What `all`, which has an entry for each step, has for the steps that are given; then `more`.
  std::vector<int> others(const std::vector<int>& all, const std::vector<int>& more = {}) const;
  /// Of a mesh the steps that are given, then the first `chosen` of those that are chosen.
  Mesh others_and(const Mesh& mesh, size_t chosen) const;
  /// The first `until` choices of `all`, with `chosen` in the steps that are chosen together.
  Choices with(const Choices& all, const Choices& chosen, size_t until) const;
};

}  // namespace smex
