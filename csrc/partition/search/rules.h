#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "partition/plan/plan.h"

namespace smex {

/// What a planner allows.
struct Rules {
  enum class Order { kExact, kLargestFirst, kRandom };
  bool rows_only = false;             ///< tensors are cut along dimension 0
  bool replicate_parameters = false;  ///< and what else is given is cut along dimension 0
  bool reductions = true;             ///< workers may make partial results
  bool pending = false;               ///< and leave them so between ops
  Order order = Order::kExact;
};

/// Throws UserError for a planner that is not known.
const Rules& rules_of(const std::string& planner);

/// Parameters and their gradients are cut, each along the first dimension that is long enough;
/// what the ops do stays, so that they gather the ones and scatter the others. What is pinned
/// stays.
void shard_parameters(const Graph& graph, const std::map<ValueId, Choices>& pinned, Plan& plan);

}  // namespace smex
