#pragma once

#include <cstdint>

#include "edges/workers.h"
#include "graph/candidates.h"

namespace smex::graph {

/// How many edges are drawn from each row, and how.
struct Draw {
  int64_t fanout = -1;   ///< at most so many; negative: all
  bool replace = false;  ///< whether an edge may be drawn more than once
  uint64_t seed = 0;
};

/// Counts what `sample_rows` draws from the rows `chosen[0 .. count)`: the edges of the i-th go to
/// `offsets[i]` to `offsets[i + 1]`. Linear in the rows, and in their edges where these have
/// weights or some are excluded.
template <typename Index>
Mistake sample_offsets(const Candidates<Index>& from, const Index* chosen, int64_t count,
                       const Draw& draw, int64_t* offsets, const Workers& workers);

/// Draws edges from each chosen row: `columns` and `eids`, each [offsets[count]]. The i-th row uses
/// the i-th stream of the seed, so that the result is the same for any number of workers.
///
/// Without weights, each set of `fanout` edges is equally likely: Floyd's algorithm (Bentley and
/// Floyd, "A Sample of Brilliance", 1987), constant time for each edge drawn. With weights and
/// without replacement, edges are drawn one after another in proportion to the weights that are
/// left: the keys of Efraimidis and Spirakis, "Weighted Random Sampling with a Reservoir" (2006),
/// linear in the row.
template <typename Index>
void sample_rows(const Candidates<Index>& from, const Index* chosen, int64_t count,
                 const Draw& draw, const int64_t* offsets, Index* columns, Index* eids,
                 const Workers& workers);

/// Counts and takes the edges with the `k` largest (or smallest) values of each chosen row, the
/// largest first; of equal values the one that stands first. `values` are by edge id; NaN counts as
/// less than every number. `k` negative: all.
template <typename Index>
Mistake topk_offsets(const EdgeRows<Index>& rows, const Index* chosen, int64_t count, int64_t k,
                     int64_t* offsets);
template <typename Index>
void topk_rows(const EdgeRows<Index>& rows, const double* values, const Index* chosen,
               int64_t count, bool ascending, const int64_t* offsets, Index* columns, Index* eids,
               const Workers& workers);

}  // namespace smex::graph
