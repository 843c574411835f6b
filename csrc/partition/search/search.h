#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "partition/plan/coarsen.h"
#include "partition/plan/plan.h"
#include "partition/price/machine.h"

namespace smex {

struct SearchOptions {
  /// Values up to this size may be replicated: gathering them costs a latency, not bandwidth.
  int64_t replicate_bytes = 64 * 1024;
  /// "tofu" cuts every tensor above `replicate_bytes`, so that memory falls with the workers. The
  /// others are for comparison: "data_parallel" replicates parameters and cuts the batch, "fsdp"
  /// does and keeps parameters cut between their uses; "all_row" cuts dimension 0 only;
  /// "spartan" decides tensor by tensor, the largest first; "icml18" never reduces outputs;
  /// "random" draws the cuts from `seed`. "equal_chop" is "tofu" on a mesh of one step.
  std::string planner = "tofu";
  uint64_t seed = 0;
  /// Whether "tofu", when it has chosen all steps, chooses each anew given all others, until no
  /// step gains.
  bool refine = true;
  /// With a machine the search minimises seconds, otherwise bytes.
  std::optional<Machine> machine;
  /// Bytes of a worker that the homes of what lives at any point of the program keep to, each by
  /// its largest tile; with so many tensors of each parameter's size beside.
  std::optional<double> memory_limit;
  double optimizer_states = 0;
  /// Operators whose outputs are views of their first input and take no memory.
  std::set<std::string> views;
  /// What is taken to be cut alike; by default most of it. Graphs up to `max_unmerged` ops are also
  /// searched with as little merged as `max_work` entries of the elimination's tables allow in the
  /// first step; the cheaper plan of the two counts.
  std::optional<Merge> merge;
  size_t max_unmerged = 2000;
  double max_work = 2e6;
  /// So many steps are chosen together, instead of one after the other.
  int joint = 1;
  /// Placements that are fixed beforehand, by value; one choice per step.
  std::map<ValueId, Choices> pinned;
  /// Bound on a table of the elimination.
  int64_t max_table = int64_t{1} << 22;
};

/// The factors of `workers` in descending order, the steps of the recursion: 12 → {3, 2, 2}.
Mesh factorise(int workers);

/// The planners' names.
const std::vector<std::string>& planners();

/// minimise  Σ_op  min_strategy ( Σ_inputs fetch_bytes + Σ_outputs store_bytes )
/// over one cut per coarse tensor group, step by step of the mesh (Tofu §5). Each step counts
/// exactly what it adds to the bytes of the steps before; then each is chosen again given the steps
/// after it too, which never costs. With a machine the sum is of seconds, and
/// has each op's roofline. Deterministic.
Plan search(const Graph& graph, const Mesh& mesh, const SearchOptions& options = {});

}  // namespace smex
