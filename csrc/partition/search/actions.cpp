#include "partition/search/actions.h"

#include <algorithm>
#include <optional>
#include <string>

#include "ir/error.h"
#include "partition/search/rules.h"

namespace smex {

namespace {

class Composition {
 public:
  Composition(const Graph& graph, const std::vector<Plan>& bases,
              const std::vector<Action>& actions)
      : graph_(graph), bases_(bases), actions_(actions), plan_(bases.front()) {}

  Plan run() {
    for (const Op& op : graph_.ops()) {
      const Action& action = actions_[op.id];
      plan_.ops[op.id] = action.worker >= 0 ? only_at_worker(plan_.mesh, action.worker)
                                            : bases_[action.base].ops[op.id];
    }
    for (const Value& value : graph_.values()) {
      const std::optional<OpId> decides = deciding_op(value);
      if (decides) plan_.values[value.id] = placement(value, actions_[*decides]);
    }
    place_homes();
    for (const GraphOutput& output : graph_.outputs()) {
      if (output.value == kNoValue || output.target == kNoValue) continue;
      plan_.values[output.value] = plan_.values[output.target];
    }
    return std::move(plan_);
  }

 private:
  std::optional<OpId> deciding_op(const Value& value) const {
    if (value.producer >= 0) return value.producer;
    if (value.role == Role::kConstant || value.users.empty()) return std::nullopt;
    return value.users.front();
  }

  Choices placement(const Value& value, const Action& action) const {
    if (action.worker >= 0) return only_at_worker(plan_.mesh, action.worker);
    if (value.role == Role::kParameter) return Choices(plan_.mesh.size(), kReplicate);
    return bases_[action.base].values[value.id];
  }

  /// Parameters that are one worker's each.
  void place_homes() {
    std::vector<ValueId> found;
    for (const Value& value : graph_.values()) {
      if (value.role != Role::kParameter || value.users.empty()) continue;
      const Action& action = actions_[value.users.front()];
      if (action.worker < 0 && action.homes) found.push_back(value.id);
    }
    std::stable_sort(found.begin(), found.end(), [&](ValueId a, ValueId b) {
      return graph_.value(a).bytes() > graph_.value(b).bytes();
    });
    std::vector<int64_t> held(mesh_size(plan_.mesh), 0);
    for (const ValueId id : found) {
      const auto home = std::min_element(held.begin(), held.end());
      *home += graph_.value(id).bytes();
      plan_.values[id] = only_at_worker(plan_.mesh, static_cast<int>(home - held.begin()));
    }
  }

  const Graph& graph_;
  const std::vector<Plan>& bases_;
  const std::vector<Action>& actions_;
  Plan plan_;
};

}  // namespace

Plan plan_of_actions(const Graph& graph, const std::vector<Plan>& bases,
                     const std::vector<Action>& actions) {
  if (bases.empty() || actions.size() != graph.ops().size()) {
    throw InternalError("actions: " + std::to_string(actions.size()) + " for " +
                        std::to_string(graph.ops().size()) + " ops, and " +
                        std::to_string(bases.size()) + " plans");
  }
  const int workers = mesh_size(bases.front().mesh);
  for (const Action& action : actions) {
    if (action.worker >= workers || action.base < 0 ||
        action.base >= static_cast<int>(bases.size())) {
      throw InternalError("actions: no worker " + std::to_string(action.worker) + " or plan " +
                          std::to_string(action.base));
    }
  }
  Plan plan = Composition(graph, bases, actions).run();
  plan.planner = "heterog";
  plan.exact = false;
  return plan;
}

}  // namespace smex
