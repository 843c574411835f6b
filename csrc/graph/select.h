#pragma once

#include <cstdint>

#include "graph/workers.h"

namespace smex::graph {

/// Edges grouped by row, to read: row r has positions `indptr[r]` to `indptr[r + 1]`. Position p is
/// edge `eids[p]`, or p where `eids` is null.
template <typename Index>
struct Rows {
  const Index* indptr = nullptr;   ///< [num_rows + 1]
  const Index* indices = nullptr;  ///< [num_edges] columns
  const Index* eids = nullptr;     ///< [num_edges] or null
  int64_t num_rows = 0;
  int64_t num_edges = 0;

  Index eid(int64_t position) const { return eids ? eids[position] : static_cast<Index>(position); }
  int64_t begin(int64_t row) const { return indptr[row]; }
  int64_t end(int64_t row) const { return indptr[row + 1]; }

  /// Whether `row` exists and its bounds lie inside.
  bool is_valid(int64_t row) const {
    return row >= 0 && row < num_rows && 0 <= begin(row) && begin(row) <= end(row) &&
           end(row) <= num_edges;
  }
};

/// Sums up how many edges the rows `chosen[0 .. count)` have: the edges of the i-th go to
/// `offsets[i]` to `offsets[i + 1]`. Returns the place of the first row that is not valid, or -1.
template <typename Index>
int64_t row_offsets(const Rows<Index>& rows, const Index* chosen, int64_t count, int64_t* offsets);

/// Copies the chosen rows one after another: `columns`, `owners` (the row itself) and `eids`, each
/// [offsets[count]].
template <typename Index>
void take_rows(const Rows<Index>& rows, const Index* chosen, int64_t count, const int64_t* offsets,
               Index* columns, Index* owners, Index* eids, const Workers& workers);

/// Of the i-th chosen row keeps the edges whose column has a new name: counts them into
/// `offsets[i + 1] - offsets[i]`. `names [num_columns]`: the new name of a column, or -1. Returns
/// the place of the first row that is not valid or whose columns are not, or -1.
template <typename Index>
int64_t induced_offsets(const Rows<Index>& rows, const Index* chosen, int64_t count,
                        const Index* names, int64_t num_columns, int64_t* offsets,
                        const Workers& workers);

/// Copies the edges that `induced_offsets` counted: `owners` are places in `chosen`, `columns` new
/// names.
template <typename Index>
void take_induced(const Rows<Index>& rows, const Index* chosen, int64_t count, const Index* names,
                  const int64_t* offsets, Index* owners, Index* columns, Index* eids,
                  const Workers& workers);

}  // namespace smex::graph
