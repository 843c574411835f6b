#include "partition/search/recursion/merged_graph.h"

#include <algorithm>

#include "partition/plan/pending.h"
#include "partition/plan/recomputation.h"

namespace smex {

namespace {

/// By value whether workers may hold addends of it: that takes as much as replicas.
std::vector<bool> pending_values(const Graph& graph, const SearchOptions& options) {
  const Rules& rules = rules_of(options.planner);
  if (!rules.pending) return {};
  std::vector<bool> all = may_stay_pending(graph);
  for (const Value& value : graph.values()) {
    if (!rules.replicate_parameters && value.bytes() > options.replicate_bytes) {
      all[value.id] = false;
    }
  }
  return all;
}

Group merged_group(const MergedGraph& merged, const std::vector<ValueId>& members) {
  Group group;
  const Shape& shape = merged.graph.value(members.front()).shape;
  group.grains.resize(shape.size());
  for (ValueId id : members) {
    const Role role = merged.graph.value(id).role;
    group.parameter |= role == Role::kParameter || role == Role::kBuffer || role == Role::kConstant;
    group.boundary &= role != Role::kIntermediate;
    for (size_t d = 0; d < shape.size(); ++d) {
      const Grain& own = merged.grains[id][d];
      group.grains[d].unit = std::max(group.grains[d].unit, own.unit);
      if (own.bounds) group.grains[d].bounds = own.bounds;
    }
  }
  return group;
}

OpClass merged_ops(const MergedGraph& merged, const Recomputation& recomputed,
                   const std::vector<OpId>& members) {
  const Op& op = merged.graph.op(members.front());
  OpClass alike;
  alike.op = op.id;
  alike.repeats = 0;
  for (OpId member : members) alike.repeats += recomputed.runs(member);
  const std::vector<bool> weighing = weighing_outputs(op);
  const auto add = [&](ValueId id, bool output, size_t position) {
    const int group = merged.coarse.group_of[id];
    const auto known = std::find(alike.groups.begin(), alike.groups.end(), group);
    alike.operands.push_back({id, output, position,
                              static_cast<size_t>(known - alike.groups.begin()),
                              output && weighing[position]});
    if (known == alike.groups.end()) alike.groups.push_back(group);
  };
  for (size_t i = 0; i < op.inputs.size(); ++i) add(op.inputs[i], /*output=*/false, i);
  for (size_t o = 0; o < op.outputs.size(); ++o) {
    if (op.outputs[o] != kNoValue) add(op.outputs[o], /*output=*/true, o);
  }
  return alike;
}

}  // namespace

MergedGraph::MergedGraph(const Graph& graph, const SearchOptions& options, Merge merge)
    : graph(graph),
      classes(graph),
      may_pend(pending_values(graph, options)),
      coarse(coarsen(graph, may_pend, merge)) {
  for (const Value& value : graph.values()) grains.push_back(classes.grains(value.id));
  for (const auto& members : coarse.groups) groups.push_back(merged_group(*this, members));
  const Recomputation recomputed = recomputation(graph);
  for (const auto& members : coarse.classes) ops.push_back(merged_ops(*this, recomputed, members));
}

}  // namespace smex
