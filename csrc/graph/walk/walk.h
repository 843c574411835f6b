#pragma once

#include <cstdint>
#include <vector>

#include "edges/workers.h"
#include "graph/candidates.h"

namespace smex::graph {

/// Where walks end: after step k each goes on unless a number of [0, 1) is below its element k.
struct Restart {
  const double* probabilities = nullptr;  ///< [size], or null: walks do not end early
  int64_t size = 0;                       ///< 1 for all steps alike, or the number of steps
  double after(int64_t step) const {
    return probabilities ? probabilities[size == 1 ? 0 : step] : 0;
  }
};

/// Walks from `seeds[0 .. count)`: step k follows an edge of `path[k]`, drawn in proportion to its
/// weight. Walk i writes `steps + 1` nodes to `nodes` and `steps` edge ids to `eids`, the seed
/// first; -1 from where it ends, also at a node without such an edge. It uses stream i of the seed.
/// `row` of a mistake is the walk's place; a node that does not exist counts as one.
template <typename Index>
Mistake random_walk(const std::vector<Candidates<Index>>& path, const Index* seeds, int64_t count,
                    const Restart& restart, uint64_t seed, Index* nodes, Index* eids,
                    const Workers& workers);

/// How a second-order walk weighs its next node.
struct Node2vec {
  double p = 1;  ///< going back to the node before is weighed by 1 / p
  double q = 1;  ///< a node without an edge to the node before is weighed by 1 / q
  int64_t steps = 0;
};

/// Walks of Grover and Leskovec, "node2vec" (2016), §3.2, by rejection. `sorted` has the same edges
/// with ascending columns in each row. Output as for `random_walk`.
template <typename Index>
Mistake node2vec_walk(const Candidates<Index>& from, const EdgeRows<Index>& sorted,
                      const Index* seeds, int64_t count, const Node2vec& how, uint64_t seed,
                      Index* nodes, Index* eids, const Workers& workers);

}  // namespace smex::graph
