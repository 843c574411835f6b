#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "partition/search/minimise/factor_graph.h"

namespace smex {

/// Σ weights[variable][choice] <= bound.
struct Limit {
  std::map<int, std::vector<double>> weights;  ///< not negative
  double bound = 0;

  double sum(const std::vector<int>& choices) const;
};

/// The limit that choices exceed most; nothing where they keep to all.
using WorstLimit = std::function<std::optional<Limit>(const std::vector<int>& choices)>;

struct WithinLimits {
  Assignment best;
  /// Whether `best` keeps to the limits. Otherwise it is the one found that exceeds them least, and
  /// `best.exact` says that none does.
  bool fits = false;
};

/// minimise Σ factors within limits, which are asked for as they are exceeded. Branch and bound on
/// Lagrange's dual: with a price on what limits count, a minimum without limits is a lower bound,
/// and one that keeps to them a solution. After `max_solves` of those the result carries the gap.
WithinLimits minimise_within(const FactorGraph& graph, const WorstLimit& worst,
                             int64_t max_table = int64_t{1} << 22, int max_solves = 20000);

}  // namespace smex
