#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "ir/graph.h"
#include "partition/plan/coarsen.h"
#include "partition/plan/pending.h"
#include "partition/plan/plan.h"
#include "partition/plan/recomputation.h"
#include "tdl/spec.h"

namespace smex::test {

/// Cuts that leave no part empty; replication where there is none.
inline std::vector<int> cuts_of(const DimClasses& classes, const Value& value, int workers) {
  std::vector<int> cuts;
  for (size_t d = 0; d < value.shape.size(); ++d) {
    if (classes.grain(value.id, d).has_parts(value.shape[d], workers)) {
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

/// What the cheapest strategy of an op moves, by the cuts of its operands; -1 where none is
/// possible.
class CheapestStrategies {
 public:
  explicit CheapestStrategies(const Graph& graph)
      : graph_(graph), classes_(graph), known_(graph.ops().size()) {}

  int64_t bytes(const Plan& plan, const Op& op) {
    std::vector<int> cuts;
    for (ValueId id : op.inputs) cuts.push_back(plan.values[id][0]);
    for (ValueId id : op.outputs) cuts.push_back(plan.values[id][0]);
    const auto [it, fresh] = known_[op.id].try_emplace(std::move(cuts), -1);
    if (!fresh) return it->second;
    for (int strategy : possible_strategies(plan, op)) {
      const int64_t bytes = op_bytes(graph_, classes_, plan, op, {strategy});
      if (it->second < 0 || bytes < it->second) it->second = bytes;
    }
    return it->second;
  }

 private:
  const Graph& graph_;
  const DimClasses classes_;
  std::vector<std::map<std::vector<int>, int64_t>> known_;
};

/// The op's cheapest strategy under the plan's cuts. Repeating it on every worker is one only for
/// data movement, and where nothing can be split.
inline int64_t best_strategy(const Graph& graph, const DimClasses& classes, Plan& plan, OpId id) {
  const Op& op = graph.op(id);
  std::vector<int> strategies;
  for (const tdl::Split& split : tdl::derive_splits(*op.spec)) {
    const Grain grain = classes.grain(op, split.index).along(split.granule);
    if (grain.has_parts(op.spec->indices[split.index].extent, plan.mesh[0])) {
      strategies.push_back(split.index);
    }
  }
  if (strategies.empty() || is_data_movement(*op.spec)) strategies.push_back(kReplicate);
  int64_t best = std::numeric_limits<int64_t>::max();
  for (int strategy : strategies) {
    plan.ops[id] = {strategy};
    best = std::min(best, op_bytes(graph, classes, plan, id));
  }
  return best;
}

/// Calls `visit(plan, bytes)` for the cheapest strategies under all cuts of every coarse group.
template <typename Visit>
void for_each_cut_plan(const Graph& graph, int workers, Merge merge, const Visit& visit) {
  const DimClasses classes(graph);
  const Recomputation recomputed = recomputation(graph);
  for_each_cut(graph, workers, /*replicas=*/false, merge, [&](Plan& plan) {
    int64_t bytes = 0;
    for (const Op& op : graph.ops()) {
      bytes += recomputed.runs(op.id) * best_strategy(graph, classes, plan, op.id);
    }
    visit(plan, bytes);
  });
}

/// Calls `visit(plan, bytes)` for the cheapest strategies under all cuts, replicas and pending sums
/// of every coarse group.
template <typename Visit>
void for_each_plan(const Graph& graph, int workers, Merge merge, const Visit& visit) {
  CheapestStrategies cheapest(graph);
  for_each_cut(graph, workers, /*replicas=*/true, merge, [&](Plan& plan) {
    int64_t sum = 0;
    for (const Op& op : graph.ops()) {
      const int64_t bytes = cheapest.bytes(plan, op);
      if (bytes < 0) return;
      sum += bytes;
    }
    visit(plan, sum);
  });
}

}  // namespace smex::test
