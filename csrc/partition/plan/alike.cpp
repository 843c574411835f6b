#include "partition/plan/alike.h"

#include <algorithm>
#include <unordered_map>

#include "tdl/spec.h"

namespace smex {

namespace {

bool same_call(const Op& a, const Op& b) {
  return a.target == b.target && a.inputs == b.inputs && a.outputs == b.outputs &&
         a.backward == b.backward && a.region == b.region && a.random == b.random &&
         static_cast<bool>(a.spec) == static_cast<bool>(b.spec);
}

bool same_value(const Value& a, const Value& b) {
  return a.role == b.role && a.dtype == b.dtype && a.shape.size() == b.shape.size() &&
         a.producer == b.producer && a.users == b.users && a.name == b.name;
}

bool same_output(const GraphOutput& a, const GraphOutput& b) {
  return a.value == b.value && a.kind == b.kind && a.target == b.target;
}

bool same_fusion(const Fusion& a, const Fusion& b) {
  return a.members == b.members && same_call(a.fused, b.fused);
}

template <typename Items, typename Same>
bool all_same(const Items& a, const Items& b, const Same& same) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

}  // namespace

bool differ_in_sizes_only(const Graph& a, const Graph& b) {
  return all_same(a.values(), b.values(), same_value) && all_same(a.ops(), b.ops(), same_call) &&
         all_same(a.outputs(), b.outputs(), same_output) &&
         all_same(a.fusions(), b.fusions(), same_fusion);
}

bool is_plan_of(const Graph& graph, const Plan& plan) {
  if (plan.values.size() != graph.values().size() || plan.ops.size() != graph.ops().size()) {
    return false;
  }
  std::unordered_map<const tdl::Spec*, std::vector<tdl::Split>> known;
  return std::all_of(graph.ops().begin(), graph.ops().end(), [&](const Op& op) {
    const Choices& choices = plan.ops[op.id];
    const bool whole = std::all_of(choices.begin(), choices.end(), [](int c) { return c < 0; });
    if (whole) return true;
    if (!op.spec) return false;
    const auto [entry, fresh] = known.try_emplace(op.spec.get());
    if (fresh) entry->second = tdl::derive_splits(*op.spec);
    const std::vector<tdl::Split>& splits = entry->second;
    return std::all_of(choices.begin(), choices.end(), [&](int choice) {
      return choice < 0 ||
             std::any_of(
                 splits.begin(), splits.end(),
                 [&](const tdl::Split& split) { return split.index == cut_of(choice); });
    });
  });
}

}  // namespace smex
