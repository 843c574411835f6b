#pragma once

#include <set>
#include <string>

#include "ir/graph.h"
#include "partition/lower/program.h"
#include "partition/plan/plan.h"

namespace smex {

struct LowerOptions {
  /// Operators whose outputs share the memory of their first operand, to know what memory is held.
  std::set<std::string> views;
  bool join = true;     ///< runs of element-wise calls become one (pointwise.h)
  bool overlap = true;  ///< fetches are waited for as late as memory allows (overlap.h)
};

/// Turns a plan into one instruction list per worker: every op fetches what its tile needs,
/// computes, and brings its outputs to their home layouts (partition-n-reduce, Tofu §4.1). Every
/// worker keeps the plan's order of ops, so a fetch never waits for something that comes after it.
Program lower(const Graph& graph, const Plan& plan, const LowerOptions& options = {});

}  // namespace smex
