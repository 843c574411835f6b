#pragma once

#include <vector>

#include "ir/graph.h"
#include "partition/plan.h"

namespace smex {

/// A point of the program: after an op and before what it made or read last is given up.
struct MemoryPoint {
  OpId op = -1;
  int64_t bytes = 0;          ///< of the largest tiles of all values that are live, without fetches
  std::vector<ValueId> live;  ///< ascending
};

/// The point at which the homes of values take the most memory.
MemoryPoint heaviest_point(const Graph& graph, const Plan& plan);

}  // namespace smex
