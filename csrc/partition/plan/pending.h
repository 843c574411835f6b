#pragma once

#include <vector>

#include "ir/graph.h"

namespace smex {

/// By value whether workers may hold addends of it from the op that makes it to those that use it
/// (kPending), and may gain by it: all its users are linear in such values, and one adds several of
/// them or makes something smaller. So are the gradients of a weight that is used several times.
std::vector<bool> may_stay_pending(const Graph& graph);

}  // namespace smex
