#pragma once

#include <vector>

#include "ir/graph.h"

namespace smex {

/// What a search may let the backward pass run again beside the regions of activation checkpoints:
/// each run of forward calls of one repeated module, such as `h.3` of `h.3.mlp.fc`: the outermost
/// of several numbered ones. A module that is used once more begins another. By op its region;
/// those of checkpoints keep theirs, the others follow in the graph's order.
std::vector<int> module_regions(const Graph& graph);

/// The number of regions: one more than the largest.
int num_regions(const std::vector<int>& regions);

/// By op the region that it has in the graph.
std::vector<int> regions_of(const Graph& graph);

}  // namespace smex
