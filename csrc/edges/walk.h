// The walk of one worker over its piece of rows and edges, and who shares a row with whom. What
// piece.h does for the CPU's kernels, without callbacks and in constant memory, for CUDA's.
#pragma once

#include "edges/cursor.h"

namespace smex {

/// How much of a row's edges a piece has: all, or the end or the beginning of a row it shares.
enum class RowPart : uint8_t { kHead = 0, kTail = 1, kWhole = 2 };

/// Goes through the rows that have positions or their end in a piece:
/// `while (walk.next()) use(walk.row, walk.first, walk.last, walk.part);`
template <typename I>
class PieceWalk {
 public:
  int64_t row = 0, first = 0, last = 0;
  RowPart part = RowPart::kWhole;

  /// With `shared_only`, rows that belong to the piece alone are left out.
  SMEX_HOST_DEVICE PieceWalk(const EdgeRows<I>& rows, int64_t index, int64_t count,
                             bool shared_only = false)
      : indptr_(rows.indptr),
        at_(cursor_at(rows, index, count)),
        end_(cursor_at(rows, index + 1, count)),
        is_inside_(at_.row < rows.num_rows && at_.edge > int64_t{rows.indptr[at_.row]}),
        is_done_(at_.row >= rows.num_rows),
        shared_only_(shared_only) {}

  SMEX_HOST_DEVICE bool next() {
    if (is_done_) return false;
    if (shared_only_ && !is_inside_ && at_.row < end_.row)
      at_ = {end_.row, static_cast<int64_t>(indptr_[end_.row])};
    const bool has_end = at_.row < end_.row;
    row = at_.row;
    first = at_.edge;
    last = has_end ? static_cast<int64_t>(indptr_[row + 1]) : end_.edge;
    part = is_inside_ ? RowPart::kHead : has_end ? RowPart::kWhole : RowPart::kTail;
    const bool found = is_inside_ || has_end || first < last;
    is_inside_ = false;
    is_done_ = !has_end;
    at_ = {row + 1, last};
    return found;
  }

 private:
  const I* indptr_;
  EdgeCursor at_, end_;
  bool is_inside_, is_done_, shared_only_;
};

/// The piece of `count` that has the given step of a walk of `steps` steps; see `cursor_at`.
SMEX_HOST_DEVICE int64_t piece_of_step(int64_t step, int64_t steps, int64_t count) {
  const int64_t each = steps / count, rest = steps % count;
  const int64_t in_longer = (each + 1) * rest;
  return step < in_longer ? step / (each + 1) : rest + (step - in_longer) / each;
}

/// A row that several pieces share. `first` has its tail part, those after it to `last` its head
/// parts; a piece behind `last` may have the row's end, but none of its edges.
struct PieceRun {
  int64_t row = 0, first = 0, last = 0;
};

/// The run that a row with edges belongs to.
template <typename I>
SMEX_HOST_DEVICE PieceRun run_of_row(const EdgeRows<I>& rows, int64_t row, int64_t count) {
  const int64_t steps = rows.num_rows + rows.num_edges;
  const int64_t begin = rows.indptr[row], end = rows.indptr[row + 1];
  return {row, piece_of_step(row + begin, steps, count),
          piece_of_step(row + end - 1, steps, count)};
}

/// True when piece `index` is the first of a run, which it then stores.
template <typename I>
SMEX_HOST_DEVICE bool run_from(const EdgeRows<I>& rows, int64_t index, int64_t count,
                               PieceRun* run) {
  const EdgeCursor end = cursor_at(rows, index + 1, count);
  if (end.row >= rows.num_rows || end.edge == int64_t{rows.indptr[end.row]}) return false;
  *run = run_of_row(rows, end.row, count);
  return run->first == index;
}

/// The row of position `k`, at or after row `from`. O(log rows), but O(1) for `from` and the next.
template <typename I>
SMEX_HOST_DEVICE int64_t row_of(const EdgeRows<I>& rows, int64_t k, int64_t from) {
  if (k < int64_t{rows.indptr[from + 1]}) return from;
  if (k < int64_t{rows.indptr[from + 2]}) return from + 1;
  int64_t low = from + 2, high = rows.num_rows - 1;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (int64_t{rows.indptr[middle + 1]} <= k) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace smex
