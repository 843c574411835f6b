#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "partition/plan/coarsen.h"
#include "partition/plan/plan.h"
#include "partition/price/cluster.h"
#include "partition/search/rules.h"

namespace smex {

/// What a search minimises: the bytes that one iteration moves, or its seconds.
enum class Objective { kCommunication, kTime };

/// Throws UserError for a name that is neither "communication" nor "time".
Objective objective_of(const std::string& name);

/// Steps of a mesh up to which a search refines them and is compared with others.
inline constexpr size_t kRefinedSteps = 3;

/// `SearchOptions::replicate_bytes` of all tensors.
inline constexpr int64_t kAllBytes = int64_t{1} << 62;

/// What a byte of a worker costs in the unit of the objective, by the points at which it is taken:
/// Lagrange's multipliers of a memory limit, the same ones in all steps.
struct MemoryPrice {
  double per_byte = 0;
  std::vector<double> shares;  ///< by op, of `per_byte`
};

/// What a search is asked for, but for the graph and the mesh.
struct SearchOptions {
  /// Values up to this size may be replicated: gathering them costs a latency, not bandwidth.
  int64_t replicate_bytes = 64 * 1024;
  Planner planner = Planner::kTofu;
  Objective objective = Objective::kCommunication;
  /// What kTime counts by; with kCommunication the plan tells its time on it.
  std::optional<Cluster> machine;
  /// Of Planner::kRandom.
  uint64_t seed = 0;
  /// Whether kTofu, when it has chosen all steps, chooses each anew given all others, until no step
  /// gains; by default for up to `kRefinedSteps`.
  std::optional<bool> refine;
  /// Bytes of a worker. `search` lets the homes of what lives at any point of the program keep to
  /// them, each by its largest tile, with so many tensors of each parameter's size beside. A
  /// portfolio lets the predicted peak keep to them, of what is fetched too.
  std::optional<double> memory_limit;
  /// By worker how many times as much its bytes count against the limit, for devices of unlike
  /// memory: the limit over its own; empty: as much.
  std::vector<double> memory_scale;
  double optimizer_states = 0;
  /// Operators whose outputs are views of their first input and take no memory.
  std::set<std::string> views;
  /// What is taken to be cut alike; by default most of it. Graphs up to `max_unmerged` ops are also
  /// searched with as little merged as `max_work` entries of the elimination's tables allow in the
  /// first step; the cheaper plan of the two counts.
  std::optional<Merge> merge;
  size_t max_unmerged = 2000;
  double max_work = 2e6;
  /// Where nothing fits otherwise, and for seconds where that is faster, the backward pass may run
  /// repeated modules again (regions.h).
  bool recompute = false;
  /// Of the graph, by which all cuts are made but those of `pinned`; 0: evenly.
  int weighting = 0;
  /// So many steps are chosen together, instead of one after the other.
  int joint = 1;
  /// Placements that are fixed beforehand, by value; one choice per step.
  std::map<ValueId, Choices> pinned;
  /// Bound on a table of the elimination.
  int64_t max_table = int64_t{1} << 22;
};

/// The factors of `workers` in descending order, the steps of the recursion: 12 → {3, 2, 2}.
Mesh factorise(int workers);

/// The steps where no mesh is given: the factors, or one of all workers for planners of one step.
Mesh default_mesh(int workers, Planner planner);

/// minimise  Σ_op  min_strategy ( Σ_inputs fetch_bytes + Σ_outputs store_bytes )
/// over one cut per coarse tensor group, step by step of the mesh (Tofu §5). Each step counts
/// exactly what it adds to the bytes of the steps before; then each is chosen again given the steps
/// after it too, which never costs. With a machine the sum is of seconds, and has each op's
/// roofline. Deterministic.
///
/// Of all cuts with that sum it takes those whose
///
/// max_point Σ_live bytes of the largest tile, then Σ_values bytes of the largest tile
///
/// is least: of the last step given the others, and where steps are chosen again of each. With a
/// memory limit the first that keeps to it.
///
///   one cut per group      → implemented in Domains::of_group: what rules, pins and sizes allow
///   min_strategy           → Domains::of_op, and for each choice of cuts Costs::of
///   fetch_bytes            → Costs::fetch_bytes
///   store_bytes            → Costs::store_bytes
///   seconds, roofline      → Machine::transfer, Costs::compute_seconds
///   Σ_op                   → StepProblem, one factor for all op classes on the same groups
///   minimise               → minimise of factor_graph.h; minimise_within a memory limit
///   step by step, again    → Recursion::try_steps, Recursion::refine
///   all with that sum      → Optima of factor_graph.h
///   max_point, Σ_values    → HomeMemory, smallest of smallest.h
Plan search(const Graph& graph, const Mesh& mesh, const SearchOptions& options = {});

}  // namespace smex
