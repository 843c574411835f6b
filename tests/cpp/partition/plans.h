#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "ir/graph.h"
#include "partition/coarsen.h"
#include "partition/pending.h"
#include "partition/plan.h"
#include "tdl/spec.h"

namespace smex::test {

/// Cuts that leave no part empty; replication where there is none.
inline std::vector<int> cuts_of(const DimClasses& classes, const Value& value, int workers) {
  std::vector<int> cuts;
  for (size_t d = 0; d < value.shape.size(); ++d) {
    if (value.shape[d] / classes.granule(value.id, d) >= workers) {
      cuts.push_back(static_cast<int>(d));
    }
  }
  if (cuts.empty()) cuts.push_back(kReplicate);
  return cuts;
}

/// Calls `visit(plan)` for all cuts of every coarse group, with replicas and pending sums too where
/// asked for.
template <typename Visit>
void for_each_cut(const Graph& graph, int workers, bool replicas, Merge merge, const Visit& visit) {
  const std::vector<bool> may_pend =
      replicas ? may_stay_pending(graph) : std::vector<bool>(graph.values().size(), false);
  const CoarseGraph coarse = coarsen(graph, may_pend, merge);
  const DimClasses classes(graph);
  Plan plan;
  plan.mesh = {workers};
  plan.values.assign(graph.values().size(), {kReplicate});
  plan.ops.assign(graph.ops().size(), {kReplicate});
  std::vector<std::vector<int>> domains;
  for (const auto& group : coarse.groups) {
    domains.push_back(cuts_of(classes, graph.value(group.front()), workers));
    if (replicas && domains.back().back() != kReplicate) domains.back().push_back(kReplicate);
    if (may_pend[group.front()]) domains.back().push_back(kPending);
  }
  std::vector<size_t> choice(domains.size(), 0);
  while (true) {
    for (const Value& value : graph.values()) {
      const int group = coarse.group_of[value.id];
      plan.values[value.id] = {domains[group][choice[group]]};
    }
    visit(plan);
    size_t g = 0;
    while (g < choice.size() && ++choice[g] == domains[g].size()) choice[g++] = 0;
    if (g == choice.size()) return;
  }
}

/// The strategies of an op that have the plan's pending sums.
inline std::vector<int> possible_strategies(const Plan& plan, const Op& op) {
  const auto is_pending = [&](ValueId id) { return plan.values[id][0] == kPending; };
  uint64_t pending = 0;
  for (size_t i = 0; i < op.inputs.size(); ++i) pending |= uint64_t{is_pending(op.inputs[i])} << i;
  const bool made = is_pending(op.outputs[0]);
  const auto sets = tdl::linear_sets(*op.spec);
  std::vector<int> possible;
  if (std::count(sets.begin(), sets.end(), pending)) possible.push_back(kPending);
  if (pending == 0) {
    if (!made) possible.push_back(kReplicate);
    for (const tdl::Split& split : tdl::derive_splits(*op.spec)) {
      if (op.spec->indices[split.index].extent < plan.mesh[0]) continue;
      if (!made || split.reduces[0] == tdl::ReduceKind::kSum) possible.push_back(split.index);
    }
  }
  return possible;
}

/// Calls `visit(plan, bytes)` for the cheapest strategies under all cuts, replicas and pending sums
/// of every coarse group.
template <typename Visit>
void for_each_plan(const Graph& graph, int workers, Merge merge, const Visit& visit) {
  const DimClasses classes(graph);
  for_each_cut(graph, workers, /*replicas=*/true, merge, [&](Plan& plan) {
    int64_t bytes = 0;
    for (const Op& op : graph.ops()) {
      int64_t least = std::numeric_limits<int64_t>::max();
      for (int strategy : possible_strategies(plan, op)) {
        least = std::min(least, op_bytes(graph, classes, plan, op, {strategy}));
      }
      if (least == std::numeric_limits<int64_t>::max()) return;
      bytes += least;
    }
    visit(plan, bytes);
  });
}

}  // namespace smex::test
