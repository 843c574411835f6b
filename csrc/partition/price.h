#pragma once

#include "ir/graph.h"
#include "partition/machine.h"
#include "partition/plan.h"

namespace smex {

/// Fills in what each step of a plan adds to the bytes that are moved and, with a machine, what
/// that and all ops take. Exact for any plan, whoever made it; ops that are alike are counted once.
void price(const Graph& graph, const Machine* machine, Plan& plan);

}  // namespace smex
