#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"
#include "partition/plan/plan.h"
#include "partition/price/machine.h"

namespace smex {

/// What one op adds to an iteration.
struct OpPrice {
  std::vector<int64_t> step_bytes;   ///< that are moved for it
  std::vector<double> step_seconds;  ///< and how long that takes; 0 without a machine
  double compute_seconds = 0;        ///< 0 without a machine
};

/// By OpId.
std::vector<OpPrice> op_prices(const Graph& graph, const Machine* machine, const Plan& plan);

/// Fills in what each step of a plan adds to the bytes that are moved and, with a machine, what
/// that and all ops take. Exact for any plan, whoever made it; ops that are alike are counted once.
void price(const Graph& graph, const Machine* machine, Plan& plan);

}  // namespace smex
