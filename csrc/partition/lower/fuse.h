#pragma once

#include <vector>

#include "ir/graph.h"
#include "partition/plan/plan.h"

namespace smex {

/// An op as it will run: itself, or the fused call of a whole fusion.
struct Call {
  const Op* op = nullptr;
  Choices choices;
  bool backward = false;  ///< runs in the backward pass, for the first or the second time
  bool again = false;     ///< makes once more what was given up
};

/// The calls that carry out the plan, in the graph's order. A fused call runs in the place of its
/// first member when nobody else reads what the members pass to each other, and some choices make
/// it compute exactly their output tiles without moving more bytes than they do, and none of them
/// is a sum that the plan adds up by peer. Of fusions that overlap the one with the most members
/// goes first. The calls refer to `graph`.
std::vector<Call> select_calls(const Graph& graph, const DimClasses& classes, const Plan& plan);

}  // namespace smex
