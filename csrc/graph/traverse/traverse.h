#pragma once

#include <cstdint>
#include <vector>

#include "edges/rows.h"

namespace smex::graph {

/// Ids in the order of a traversal, cut into its steps: `sizes[k]` ids are reached in step k.
template <typename Index>
struct Frontiers {
  std::vector<Index> ids;
  std::vector<int64_t> sizes;
};

/// Nodes by their distance from `sources`, which are step 0 as they are given; a node stands where
/// its first edge from the step before puts it. At most `max_steps` further steps; negative: all.
template <typename Index>
Frontiers<Index> bfs_nodes(const EdgeRows<Index>& rows, const Index* sources, int64_t count,
                           int64_t max_steps);

/// The edges that reach a node first in `bfs_nodes`.
template <typename Index>
Frontiers<Index> bfs_edges(const EdgeRows<Index>& rows, const Index* sources, int64_t count);

/// What an edge is in a depth-first search.
enum class EdgeLabel : int8_t {
  kForward = 0,  ///< reaches a node first
  kReverse = 1,  ///< the same edge on the way back
  kNonTree = 2,  ///< leads to a node that was reached before
};

/// Edges in the order of one depth-first search from each source, all searches side by side: step k
/// has the k-th edge of each search that is so long, and `labels` is parallel to its ids.
template <typename Index>
Frontiers<Index> dfs_edges(const EdgeRows<Index>& rows, const Index* sources, int64_t count,
                           bool with_reverse, bool with_nontree, std::vector<int64_t>& labels);

/// Nodes by the length of the longest path to them (Kahn's algorithm). Nodes on a cycle, or behind
/// one, are left out.
template <typename Index>
Frontiers<Index> topological_nodes(const EdgeRows<Index>& rows);

/// The first row whose bounds or position whose column is not inside of a square adjacency, as text
/// for an error, or null: traversals follow columns as rows without looking.
template <typename Index>
const char* why_not_square(const EdgeRows<Index>& rows);

}  // namespace smex::graph
