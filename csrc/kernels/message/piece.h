// A piece of the walk over rows and edges, row by row. Included by kernels that are compiled per
// instruction set.
#pragma once

#include "kernels/cpu/simd.h"
#include "kernels/message/edges.h"

namespace smex::kernels::SMEX_ISA {

/// How much of a row's edges a piece has: all, or the end or the beginning of a row it shares.
enum class Part : int { kHead = 0, kTail = 1, kWhole = 2 };

template <typename I>
struct Piece {
  const EdgeRows<I>& rows;
  EdgeCursor begin, end;

  Piece(const EdgeRows<I>& rows, int64_t index, int64_t count)
      : rows(rows), begin(cursor_at(rows, index, count)), end(cursor_at(rows, index + 1, count)) {}

  /// The row `begin.row` belongs to an earlier piece too.
  bool begins_inside() const { return begin.edge > rows.indptr[begin.row]; }

  /// Calls `visit(row, first, last, part)` for every row with positions or an end in this piece.
  template <typename Visit>
  SMEX_INLINE void for_each_row(const Visit& visit) const {
    int64_t row = begin.row, edge = begin.edge;
    if (row < rows.num_rows && begins_inside()) {
      const int64_t stop = row < end.row ? int64_t{rows.indptr[row + 1]} : end.edge;
      visit(row, edge, stop, Part::kHead);
      if (row == end.row) return;
      edge = stop;
      ++row;
    }
    for (; row < end.row; ++row) {
      const int64_t stop = rows.indptr[row + 1];
      visit(row, edge, stop, Part::kWhole);
      edge = stop;
    }
    if (edge < end.edge) visit(row, edge, end.edge, Part::kTail);
  }
};

/// Calls `visit(row, first, last)` for every row that the pieces `first` to `last` share: `first`
/// has its tail part, the others have head parts, that of `last` being empty perhaps.
template <typename I, typename Visit>
void for_each_shared_row(const EdgeRows<I>& rows, int64_t num_pieces, const Visit& visit) {
  for (int64_t p = 0; p + 1 < num_pieces;) {
    const Piece<I> piece(rows, p, num_pieces);
    const int64_t row = piece.end.row;
    if (row >= rows.num_rows || piece.end.edge == rows.indptr[row]) {
      ++p;
      continue;
    }
    int64_t last = p + 1;  // the piece that has the row's end
    while (Piece<I>(rows, last, num_pieces).end.row == row) ++last;
    visit(row, p, last);
    p = last;
  }
}

}  // namespace smex::kernels::SMEX_ISA
