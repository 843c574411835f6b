#pragma once

#include <cstdint>
#include <vector>

namespace smex {

/// What computes a range of vertices.
struct RangeWorker {
  double speed = 1;   ///< seconds of the others' for one of its own
  double offset = 0;  ///< seconds that it takes besides, if it has any vertex
};

/// Where contiguous ranges of vertices end, one for each worker in their order, so that the last
/// worker to end does so as early as any ranges allow. Exact (the parametric search of Nicol,
/// "Rectilinear Partitioning of Irregular Data Parallel Computations", 1994, for workers of
/// different speeds): ROC's binary search (Jia et al. 2020, §4.2) looks for ends one by one.
/// `sums[v]` are the seconds of all vertices before v, ascending from 0. Result: 0, then the ends.
/// Throws UserError for sums that do not ascend, and speeds that are not above 0.
std::vector<int64_t> min_max_ranges(const std::vector<double>& sums,
                                    const std::vector<RangeWorker>& workers);

/// Seconds of the last worker to end.
double range_seconds(const std::vector<double>& sums, const std::vector<RangeWorker>& workers,
                     const std::vector<int64_t>& ends);

}  // namespace smex
