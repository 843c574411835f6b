// A piece of the walk over rows and edges, row by row. All is inlined, since kernels that are
// compiled per instruction set include it.
#pragma once

#include "edges/walk.h"

namespace smex {

template <typename I>
struct Piece {
  const EdgeRows<I>& rows;
  EdgeCursor begin, end;

  SMEX_INLINE Piece(const EdgeRows<I>& rows, int64_t index, int64_t count)
      : rows(rows), begin(cursor_at(rows, index, count)), end(cursor_at(rows, index + 1, count)) {}

  /// The row `begin.row` belongs to an earlier piece too.
  SMEX_INLINE bool begins_inside() const { return begin.edge > rows.indptr[begin.row]; }

  /// Calls `visit(row, first, last, part)` for every row with positions or an end in this piece.
  template <typename Visit>
  SMEX_INLINE void for_each_row(const Visit& visit) const {
    int64_t row = begin.row, edge = begin.edge;
    if (row < rows.num_rows && begins_inside()) {
      const int64_t stop = row < end.row ? int64_t{rows.indptr[row + 1]} : end.edge;
      visit(row, edge, stop, RowPart::kHead);
      if (row == end.row) return;
      edge = stop;
      ++row;
    }
    for (; row < end.row; ++row) {
      const int64_t stop = rows.indptr[row + 1];
      visit(row, edge, stop, RowPart::kWhole);
      edge = stop;
    }
    if (edge < end.edge) visit(row, edge, end.edge, RowPart::kTail);
  }
};

/// Calls `visit(row, first, last)` for every row that the pieces `first` to `last` share: `first`
/// has its tail part, the others have head parts.
template <typename I, typename Visit>
SMEX_INLINE void for_each_shared_row(const EdgeRows<I>& rows, int64_t num_pieces,
                                     const Visit& visit) {
  PieceRun run;
  for (int64_t p = 0; p + 1 < num_pieces; ++p)
    if (run_from(rows, p, num_pieces, &run)) visit(run.row, run.first, run.last);
}

}  // namespace smex
