#pragma once

#include <vector>

#include "ir/graph.h"
#include "partition/lower/program.h"
#include "partition/plan/plan.h"
#include "partition/price/machine.h"
#include "partition/simulate/seconds.h"

namespace smex {

/// A list schedule of a program: instructions on their workers and messages on their ports, of
/// those that could begin the one of the highest upward rank first (HeteroG, §4.2).
struct ListOrder {
  std::vector<int> positions;  ///< by op of the graph its place among all, see Plan::order
  double makespan = 0;         ///< of both lists, if each worker could keep to its own order
  double least = 0;            ///< no schedule of the same tasks is shorter
  int resources = 0;           ///< that are used: the makespan is at most so many times the least
};

/// Workers run one order of ops, that in which the schedule begins them. Throws like `simulate`.
ListOrder list_order(const Graph& graph, const Program& program, const InstrSeconds& seconds,
                     const Mesh& mesh, const Machine& machine);

}  // namespace smex
