#include "partition/search/strategies.h"

#include <algorithm>

#include "ir/error.h"
#include "partition/lower/lower.h"
#include "partition/lower/residency.h"
#include "partition/price/memory.h"
#include "partition/search/parallel.h"
#include "partition/simulate/critical_seconds.h"
#include "partition/simulate/seconds.h"
#include "partition/simulate/timeline.h"

namespace smex {

Strategies::Strategies(const Graph& graph, std::vector<Plan> bases, std::vector<Action> actions,
                       std::vector<int> group_of, Machine machine, std::set<std::string> views)
    : graph_(graph),
      bases_(std::move(bases)),
      actions_(std::move(actions)),
      group_of_(std::move(group_of)),
      groups_(group_of_.empty() ? 0 : *std::max_element(group_of_.begin(), group_of_.end()) + 1),
      machine_(std::move(machine)),
      views_(std::move(views)) {
  if (group_of_.size() != graph_.ops().size()) {
    throw InternalError("strategies: groups of " + std::to_string(group_of_.size()) + " for " +
                        std::to_string(graph_.ops().size()) + " ops");
  }
}

Plan Strategies::plan(const std::vector<int>& strategy) const {
  const auto is_action = [&](int number) {
    return 0 <= number && number < static_cast<int>(actions_.size());
  };
  if (static_cast<int>(strategy.size()) != groups_ ||
      !std::all_of(strategy.begin(), strategy.end(), is_action)) {
    throw InternalError("strategies: expected one of " + std::to_string(actions_.size()) +
                        " actions for each of " + std::to_string(groups_) + " groups");
  }
  std::vector<Action> by_op;
  for (const int group : group_of_) by_op.push_back(actions_[strategy[group]]);
  return plan_of_actions(graph_, bases_, by_op);
}

std::vector<Evaluation> Strategies::evaluate(
    const std::vector<std::vector<int>>& strategies) const {
  std::vector<Evaluation> found(strategies.size());
  for_all(strategies.size(), [&](size_t n) { found[n] = simulated(strategies[n]); });
  return found;
}

Evaluation Strategies::simulated(const std::vector<int>& strategy) const {
  const Plan composed = plan(strategy);
  const Program program = lower(graph_, composed, {.views = views_});
  const InstrSeconds seconds = predicted_seconds(program, machine_, views_);
  const Timeline timeline = simulate(program, seconds, composed.mesh, machine_);
  Evaluation found{timeline.seconds, peak_bytes(program, views_),
                   parameter_bytes_by_worker(graph_, composed), std::vector<double>(groups_, 0)};
  const std::vector<double> by_op = critical_seconds(graph_, program, timeline.course);
  for (size_t op = 0; op < by_op.size(); ++op) found.critical[group_of_[op]] += by_op[op];
  return found;
}

}  // namespace smex
