#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "partition/plan/plan.h"

namespace smex {

/// What one block of the sources' rows adds to a worker's sum over edges.
struct PeerSum {
  Interval block;
  /// The rows that its edges come from; of the worker's own block all, which are where they are.
  IndexList rows;
  bool own = false;
  std::vector<int64_t> bounds;  ///< by row of the worker's tile the first of its edges, and the end
  std::vector<int64_t> sources;  ///< by edge the position in `rows`
  std::vector<int64_t> edges;    ///< and in the worker's tile of edges' values
};

/// A sum of messages (smex::spmm) as partial sums by the block of rows, held by one peer, that the
/// sources are of: Sequential Aggregation (Mostafa 2022, "Sequential Aggregation and
/// Rematerialization", §3.1). A worker has rows of one peer at a time.
struct PeerSums {
  std::vector<size_t> sources;  ///< the inputs that are read at edges' sources
  std::vector<size_t> values;   ///< and those that are read at edges
  size_t turns = 0;             ///< as many as there are blocks
  /// By worker and turn: its own block first, then its neighbours' in cyclic order, so that not all
  /// ask one peer. Nothing where no edge comes from a block.
  std::vector<std::vector<std::optional<PeerSum>>> parts;
  /// By worker the edges of each row, 1 for none.
  std::vector<std::vector<int64_t>> degrees;
};

/// Whether this is smex::spmm(in_edges, out_edges, message, reduce, operands), of which a Spec says
/// what it means.
bool is_sum_of_messages(const Op& op);

/// `homes` has by input where it is kept. Nothing where the op is no sum of messages of a known
/// structure whose rows are cut, or where parts would take no less memory than all rows at once.
std::optional<PeerSums> sums_by_peer(const Graph& graph, const Op& op, const OpTiles& tiles,
                                     const std::vector<Layout>& homes);

}  // namespace smex
