#pragma once

#include <cstdint>
#include <vector>

#include "edges/workers.h"
#include "graph/candidates.h"

namespace smex::graph {

/// How layer-neighbour sampling draws.
struct LaborDraw {
  int64_t fanout = -1;     ///< as many from each row on average, at most; negative: all
  int64_t iterations = 0;  ///< of importance sampling; negative: until it changes nothing
  uint64_t seed = 0;
  uint64_t second_seed = 0;
  double share = 0;  ///< of [0, 1]: how far the numbers are on the way to those of the second seed
};

/// Edges that were drawn: those of the i-th row are `offsets[i]` to `offsets[i + 1]`.
template <typename Index>
struct WeightedEdges {
  std::vector<int64_t> offsets;
  std::vector<Index> columns;
  std::vector<Index> eids;
  std::vector<float> importances;  ///< 1 / probability, scaled to a mean of 1 in each row
};

/// Draws from the chosen rows such that they share columns: Balin and Catalyurek, "Layer-Neighbor
/// Sampling" (2023), §3.
///
/// Column t has one number r_t for all rows, uniform in [0, 1), and row s draws its edge from t
/// where r_t < min(1, c_s π_t). At first π_t is 1 and c_s such that `fanout` edges are drawn on
/// average, fanout / degree even where that is above 1; with weights a_ts, π_t is a_ts. An
/// iteration multiplies π_t by the largest c_s of its rows, and makes c_s what keeps the variance
/// of the row's mean, Σ a² (1 / p - 1), as it was at first. Columns that some row takes in any case
/// have a π above the others', so that the other rows take them too: fewer columns are drawn in
/// all.
template <typename Index>
Mistake sample_labor(const Candidates<Index>& from, const Index* chosen, int64_t count,
                     const LaborDraw& draw, WeightedEdges<Index>& out, const Workers& workers);

}  // namespace smex::graph
