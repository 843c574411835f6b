#include "partition/search/recursion/step_problem.h"

namespace smex {

StepProblem::StepProblem(const MergedGraph& merged, const Domains& domains)
    : merged_(merged), domains_(domains) {
  for (size_t group = 0; group < domains.groups(); ++group) {
    const Domain& domain = domains.of_group(static_cast<int>(group));
    factors_.domain_sizes.push_back(static_cast<int>(domain.size()));
  }
}

void StepProblem::add(const OpCosts& costs) {
  const OpClass& members = merged_.ops[costs_.size()];
  costs_.push_back(&costs);
  if (costs.by_operand.empty()) {
    variables_.push_back(kNoVariable);
    add_factor(members.groups, kNoVariable, costs.cost, members.repeats);
    return;
  }
  const auto variable = static_cast<int>(factors_.domain_sizes.size());
  variables_.push_back(variable);
  factors_.domain_sizes.push_back(static_cast<int>(costs.strategies.size()));
  for (size_t i = 0; i < members.operands.size(); ++i) {
    add_factor({members.groups[members.operands[i].slot]}, variable, costs.by_operand[i],
               members.repeats);
  }
  add_factor({}, variable, costs.compute, members.repeats);
}

/// Adds a table to that of the same variables.
void StepProblem::add_factor(const std::vector<int>& groups, int variable,
                             const std::vector<double>& table, double repeats) {
  std::vector<int> scope;  // what has one choice decides nothing
  for (int group : groups) {
    if (domains_.of_group(group).size() > 1) scope.push_back(group);
  }
  if (variable != kNoVariable) scope.push_back(variable);
  const auto [it, fresh] = positions_.try_emplace(scope, factors_.factors.size());
  if (fresh) factors_.factors.push_back({scope, std::vector<double>(table.size(), 0)});
  std::vector<double>& sum = factors_.factors[it->second].table;
  for (size_t entry = 0; entry < table.size(); ++entry) sum[entry] += repeats * table[entry];
}

const Strategy& StepProblem::strategy(size_t op_class, const Assignment& chosen) const {
  const OpCosts& costs = *costs_[op_class];
  if (variables_[op_class] != kNoVariable) {
    return costs.strategies[chosen.choices[variables_[op_class]]];
  }
  size_t entry = 0;
  for (int group : merged_.ops[op_class].groups) {
    entry = entry * domains_.of_group(group).size() + static_cast<size_t>(chosen.choices[group]);
  }
  return costs.strategies[costs.best[entry]];
}

}  // namespace smex
