#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "partition/plan/plan.h"
#include "partition/price/machine.h"
#include "partition/search/actions.h"

namespace smex {

/// What an iteration of a strategy takes.
struct Evaluation {
  double seconds = 0;                    ///< simulated
  std::vector<int64_t> peak_bytes;       ///< by worker
  std::vector<int64_t> parameter_bytes;  ///< by worker, of those it holds
  std::vector<double> critical;          ///< by group its seconds on the critical path
};

/// All strategies of a graph whose ops decide in groups (HeteroG §4.1: N groups, M + 4 actions). A
/// strategy is by group the number of an action.
class Strategies {
 public:
  /// `bases` are as for `plan_of_actions`, `group_of` is by op. Keeps a reference to the graph.
  Strategies(const Graph& graph, std::vector<Plan> bases, std::vector<Action> actions,
             std::vector<int> group_of, Machine machine, std::set<std::string> views);

  /// Throws InternalError where it is not an action for each group.
  Plan plan(const std::vector<int>& strategy) const;

  /// Composes, lowers and simulates them, several at once where the computer has several cores.
  std::vector<Evaluation> evaluate(const std::vector<std::vector<int>>& strategies) const;

 private:
  Evaluation simulated(const std::vector<int>& strategy) const;

  const Graph& graph_;
  const std::vector<Plan> bases_;
  const std::vector<Action> actions_;
  const std::vector<int> group_of_;
  const int groups_;
  const Machine machine_;
  const std::set<std::string> views_;
};

}  // namespace smex
