#pragma once

#include <optional>
#include <vector>

#include "partition/search/home_memory.h"
#include "partition/search/minimise/factor_graph.h"

namespace smex {

/// What the homes of tensors take of a worker.
struct HomeSize {
  double peak = 0;   ///< bytes of the largest tiles at the point that has the most
  double tiles = 0;  ///< bytes of the largest tiles of all values: less where they are more even

  /// Whether it is less by more than rounding: at the peak, or as much there and less in all.
  bool less_than(const HomeSize& other) const;
};

/// What choices take.
HomeSize home_size(const HomeMemory& memory, const std::vector<int>& choices);

/// Of all that cost the least, the choices of open variables that take the least at the peak, and
/// of those the ones that take the least in all; which of them otherwise does not matter. `memory`
/// counts by choices of open variables, and by choice 0 of all others. Starts from `first`. A few
/// dozen minimisations of the open variables at the most: what they do not prove may be larger.
std::vector<int> smallest(const Optima& optima, const HomeMemory& memory, std::vector<int> first);

}  // namespace smex
