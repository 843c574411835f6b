#pragma once

#include <vector>

#include "ir/graph.h"
#include "partition/plan/plan.h"

namespace smex {

/// What HeteroG decides of an operator (§4.1: M + 4 actions): that one worker runs it, or all do,
/// each for a part of the batch, as one of some data-parallel plans has it; parameters that it is
/// the first to read are replicated then (AllReduce), or one worker's (a parameter server's).
struct Action {
  int worker = -1;     ///< who alone runs it; -1: all do
  int base = 0;        ///< as in this plan
  bool homes = false;  ///< each parameter is one worker's
};

/// The plan of an action for each op. What an op makes lies as its action says; parameters, inputs
/// and buffers as that of their first user does, and gradients and new values of buffers as what
/// they are of. Parameters of which each is one worker's go to who has the fewest bytes so far, the
/// largest first.
///
/// `bases` are data-parallel plans of one mesh, in which no sums stay pending. Throws InternalError
/// where there is not an action for each op, or one of a worker or base that there is none of.
Plan plan_of_actions(const Graph& graph, const std::vector<Plan>& bases,
                     const std::vector<Action>& actions);

}  // namespace smex
