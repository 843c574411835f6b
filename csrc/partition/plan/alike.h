#pragma once

#include "ir/graph.h"
#include "partition/plan/plan.h"

namespace smex {

/// Whether two graphs are the same calls on the same values, but for sizes, numbers among the
/// arguments and Specs: two captures of a model for inputs of different sizes.
bool differ_in_sizes_only(const Graph& a, const Graph& b);

/// Whether the choices of another graph's plan, which differs in sizes only, are choices here:
/// every index that is split can be. Sizes too small for that need another plan.
bool is_plan_of(const Graph& graph, const Plan& plan);

}  // namespace smex
