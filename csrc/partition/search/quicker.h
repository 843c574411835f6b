#pragma once

#include <optional>

#include "ir/graph.h"
#include "partition/search/within_memory.h"

namespace smex {

/// A plan whose simulated course (see `simulate`) ends before that of `found`, the one of the least
/// sum of seconds: among those that the search finds where links are faster than they are, as part
/// of what they carry costs no time while workers compute, and those that cut all messages of a
/// graph alike, as the sum does not have what workers copy of their own tiles. Keeps to the
/// request's memory limit.
///
/// Nothing where there is none, where the request does not ask for time, or the graph or the number
/// of workers is large.
std::optional<FoundPlan> quicker_plan(const Graph& graph, const Request& request,
                                      const FoundPlan& found);

}  // namespace smex
