#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "partition/plan/grid.h"
#include "partition/plan/plan.h"
#include "partition/price/call_cost.h"

namespace smex {

/// What a worker receives over: seconds for a message, bytes a second.
struct Link {
  double latency = 0;
  double bandwidth = 1;
  /// The share of a transfer's time in which the worker can compute as if there were none: 1 where
  /// a device of its own moves the bytes, 0 where the worker does.
  double overlap = 0;
};

/// The few numbers that the objective "time" knows of a machine. All workers are alike.
struct Machine {
  std::map<int, double> flops;  ///< by item size in bytes: operations a second of a worker
  double memory_bandwidth = 1;  ///< bytes a second of a worker
  double launch = 0;            ///< seconds that the shortest kernel takes
  std::vector<Link> links;      ///< by step of the mesh: between the parts that the step makes
  double gather_bandwidth = 0;  ///< bytes a second of rows that a table names; 0: the memory's
  CallCosts calls = {};         ///< of calls that were measured

  /// Of a call that was measured the sum of its costs. Of others the roofline: the longest of a
  /// kernel's shortest time, its arithmetic, its operands' bytes and those that it reads of rows
  /// one by one.
  double compute(const std::string& kind, const std::string& target, const CallWork& work) const;
  /// Seconds of the op's largest tile.
  double compute(const Graph& graph, const Op& op, const OpGrid& grid) const;
  /// Seconds to move what a step adds to what the steps before move, in all workers together.
  double transfer(size_t step, double bytes, int workers) const;
};

}  // namespace smex
