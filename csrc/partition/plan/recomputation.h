#pragma once

#include <vector>

#include "ir/graph.h"

namespace smex {

/// What the backward pass computes once more instead of keeping it: activation checkpointing (Chen
/// et al. 2016, "Training Deep Nets with Sublinear Memory Cost").
///
/// A region is kept by its boundary: what calls outside of it, or the caller, read stays; of an
/// open region only what calls of other regions, which may run again, or the caller read. Of all
/// else that the backward pass reads the region's calls run again, just before the first backward
/// call that does. Both times they are cut alike. What torch's generator has drawn stays too.
struct Recomputation {
  /// By position of a call the positions of those that run again just before it, ascending.
  std::vector<std::vector<int>> before;
  std::vector<bool> again;   ///< by position: runs a second time
  std::vector<bool> remade;  ///< by value: backward calls read what was made the second time

  /// How often a call runs.
  int runs(int position) const { return again[position] ? 2 : 1; }
};

/// `calls` are the ops of a graph, or fused calls in the place of some, in their order.
Recomputation recomputation(const Graph& graph, const std::vector<const Op*>& calls);
/// Of all ops as they are.
Recomputation recomputation(const Graph& graph);

}  // namespace smex
