#pragma once

#include <utility>

#include "partition/search/recursion/domains.h"

namespace smex::test {

/// What a search has before it goes to some steps of a mesh: a plan in which all values and ops are
/// replicated so far.
struct Stage {
  Stage(const Graph& graph, Mesh mesh, const SearchOptions& options, Steps steps = {},
        Merge merge = Merge::kGradients)
      : merged(graph, options, merge),
        grids(graph, merged.classes),
        options(options),
        steps(steps) {
    plan.values.assign(graph.values().size(), Choices(mesh.size(), kReplicate));
    plan.ops.assign(graph.ops().size(), Choices(mesh.size(), kReplicate));
    plan.mesh = std::move(mesh);
  }

  Domains domains() { return {merged, options, grids, plan, steps}; }

  MergedGraph merged;
  OpGrids grids;
  SearchOptions options;
  Steps steps;
  Plan plan;
};

/// Options under which no tensor is small.
inline SearchOptions all_cut(Planner planner = Planner::kTofu) {
  SearchOptions options;
  options.replicate_bytes = 0;
  options.planner = planner;
  return options;
}

}  // namespace smex::test
