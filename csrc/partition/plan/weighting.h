#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/interval.h"
#include "partition/plan/choice.h"

namespace smex {

/// What each part of a step gets under a weighting: the sums of the shares of the workers at its
/// coordinate that have `coordinates` along the other steps; -1 stands for any. `mesh` may be the
/// first steps of that of all workers.
std::vector<double> shares_of_parts(const Weighting& weighting, const Mesh& mesh,
                                    const std::vector<int>& coordinates, size_t step);

/// By worker its share of what its part of some first steps of the mesh has, where the other steps
/// divide that by the weighting, or evenly.
std::vector<double> shares_within_parts(int workers, int parts, const Weighting* weighting);

/// `range` cut in proportion to `shares`, along multiples of `granule` where it divides the range.
/// Each end is at most half a granule beside its exact place. Even where all shares are 0.
std::vector<Interval> cut_by_shares(const Interval& range, const std::vector<double>& shares,
                                    int64_t granule);

}  // namespace smex
