#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "ir/graph.h"
#include "partition/search/within_memory.h"

namespace smex {

/// Why no plan keeps to the memory limit, and what would help.
struct TooLarge {
  int workers = 0;
  double peak = 0;               ///< of the fullest worker of the smallest plan that was found
  OpId op = -1;                  ///< where it is
  double kept = 0;               ///< bytes of it that are parameters and the optimiser's states
  std::vector<size_t> conflict;  ///< numbers of pins without any one of which there is a plan
  /// More workers, with which something fits; 0: not even with four times what should do. Nothing:
  /// the machine has not so many, or they are too many to try.
  std::optional<int> enough_workers;
};

/// A pin that leaves a worker without a tile, because a view joins dimensions.
struct IdlePin {
  size_t pin = 0;  ///< its number
  Choices placement;
  int worker = 0;
};

/// What came of requests: the cheapest plan, or why there is none.
struct Outcome {
  size_t request = 0;  ///< of which this is said
  std::variant<FoundPlan, TooLarge, IdlePin> result;
  /// By op what the plan runs again; empty: what the graph says.
  std::vector<int> regions;
};

/// The searches of which the cheapest plan counts: what is asked for, then what may do better.
/// Those are other meshes, where `any_mesh` says that it was not given, other planners, and single
/// steps where several are chosen together. What takes long is left out for large graphs and many
/// steps.
std::vector<Request> candidates(const Graph& graph, const Mesh& mesh, const SearchOptions& options,
                                bool any_mesh);

/// The first of the cheapest plans that the requests have; of those, without a memory limit, whose
/// tensors take the least. The searches run at the same time.
/// Where the requests allow it and the memory limit excludes the cheapest plan, the backward pass
/// runs repeated modules again: all, or as few of the first ones, which are kept longest, as let a
/// plan fit that is as cheap. Where links leave time to compute, a plan of a shorter course counts
/// (see `quicker_plan`).
/// Where none has a plan: why the first one that exceeds its memory limit does, or the first pin
/// that leaves a worker idle. Throws what the first search throws that does. Deterministic.
Outcome best_plan(const Graph& graph, const std::vector<Request>& requests);

}  // namespace smex
