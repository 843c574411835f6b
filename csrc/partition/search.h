#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "partition/plan.h"

namespace smex {

struct SearchOptions {
  /// Values up to this size may be replicated: gathering them costs a latency, not bandwidth.
  int64_t replicate_bytes = 64 * 1024;
  /// "tofu" cuts every tensor above `replicate_bytes`, so that memory falls with the workers;
  /// "data_parallel" replicates parameters and cuts the batch; "all_row" cuts dimension 0 only.
  std::string planner = "tofu";
  /// Placements that are fixed beforehand, by value; one choice per step.
  std::map<ValueId, Choices> pinned;
  /// Bound on a table of the elimination.
  int64_t max_table = int64_t{1} << 22;
};

/// The factors of `workers` in descending order, the steps of the recursion: 12 → {3, 2, 2}.
Mesh factorise(int workers);

/// minimise  Σ_op  min_strategy ( Σ_inputs fetch_bytes + Σ_outputs store_bytes )
/// over one cut per coarse tensor group, step by step of the mesh (Tofu §5). Each step counts
/// exactly what it adds to the bytes of the steps before. Deterministic.
Plan search(const Graph& graph, const Mesh& mesh, const SearchOptions& options = {});

}  // namespace smex
