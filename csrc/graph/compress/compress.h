#pragma once

#include <cstdint>

#include "edges/workers.h"
namespace smex::graph {

/// Edge i joins `rows[i]` to `columns[i]` and is called `ids[i]`, or i where `ids` is null.
template <typename Index>
struct EdgeList {
  const Index* rows = nullptr;
  const Index* columns = nullptr;
  const Index* ids = nullptr;
  int64_t num_edges = 0;
  int64_t num_rows = 0;
  int64_t num_columns = 0;

  /// Whether edge i is inside: its row, column and id below their numbers, none negative.
  bool is_valid(int64_t i) const {
    return in(rows[i], num_rows) && in(columns[i], num_columns) && (!ids || in(ids[i], num_edges));
  }

 private:
  static bool in(Index id, int64_t size) {
    return static_cast<uint64_t>(id) < static_cast<uint64_t>(size);
  }
};

/// Where compressed edges go: row r has positions `indptr[r]` to `indptr[r + 1]`.
template <typename Index>
struct CompressedEdges {
  Index* indptr = nullptr;   ///< [num_rows + 1]
  Index* indices = nullptr;  ///< [num_edges] columns
  Index* eids = nullptr;     ///< [num_edges] names of the edges
};

/// Groups edges by row, those of a row in the order of the list. Index: int32_t or int64_t.
///
/// A stable bucket sort in two levels: edges are divided among buckets of neighbouring rows that
/// fit the second-level cache, and counted and ordered by row there. Linear in edges and rows, the
/// same result for any number of workers.
///
/// Returns the position of the first edge that is not valid, with the output unspecified, or -1.
template <typename Index>
int64_t compress_cpu(const EdgeList<Index>& edges, const CompressedEdges<Index>& out,
                     const Workers& workers);

/// The inverse: writes row and column of position p to `rows[p]` and `columns[p]`, or, where `eids`
/// is not null, to `rows[eids[p]]` and `columns[eids[p]]`; `eids` must be a permutation. `columns`
/// may be null, and `indices` then too. `indptr` is valid (`is_indptr`). Returns a position whose
/// edge id is out of range, or -1.
template <typename Index>
int64_t expand_cpu(const Index* indptr, const Index* indices, const Index* eids, int64_t num_rows,
                   int64_t num_edges, Index* rows, Index* columns, const Workers& workers);

/// Whether `indptr [num_rows + 1]` ascends from 0 to `num_edges`.
template <typename Index>
bool is_indptr(const Index* indptr, int64_t num_rows, int64_t num_edges);

/// How often each of 0 .. size - 1 appears among `ids[0 .. count)`. Returns the position of the
/// first id out of range, or -1.
template <typename Index>
int64_t count_cpu(const Index* ids, int64_t count, int64_t size, Index* result,
                  const Workers& workers);

}  // namespace smex::graph
