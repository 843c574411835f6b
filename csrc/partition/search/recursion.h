#pragma once

#include <limits>
#include <optional>

#include "partition/plan/coarsen.h"
#include "partition/search/search.h"

namespace smex {

/// The steps of the mesh one after the other, as many together as the options say, each the best
/// given those before it (Tofu §5.2), then refined. `merge` is what is cut alike. Without prices.
/// Nothing where the first step's tables would have more than `max_work` entries.
std::optional<Plan> search_merged(const Graph& graph, const Mesh& mesh,
                                  const SearchOptions& options, Merge merge,
                                  double max_work = std::numeric_limits<double>::infinity());

}  // namespace smex
