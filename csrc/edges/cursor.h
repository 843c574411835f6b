#pragma once

#include <cstdint>

#include "edges/rows.h"

namespace smex {

/// A place in the walk over all rows and edges: edges before `edge` are done, `row` is being done.
struct EdgeCursor {
  int64_t row = 0;
  int64_t edge = 0;
};

/// Where piece `index` of `count` begins when rows and edges together are divided evenly.
///
/// A step of the walk is an edge or the end of a row, so a long row is divided and many empty rows
/// are too (merge path: Merrill and Garland, "Merge-based parallel sparse matrix-vector
/// multiplication", SC'16, §4). O(log rows).
template <typename I>
SMEX_HOST_DEVICE EdgeCursor cursor_at(const EdgeRows<I>& rows, int64_t index, int64_t count) {
  const int64_t steps = rows.num_rows + rows.num_edges;
  const int64_t each = steps / count, rest = steps % count;
  const int64_t step = each * index + (index < rest ? index : rest);
  int64_t low = 0, high = rows.num_rows;  // the first row whose end lies behind `step`
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (static_cast<int64_t>(rows.indptr[middle + 1]) + middle < step) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return {low, step - low};
}

/// How many pieces the work is worth, whatever the number of threads: results do not depend on it.
inline int64_t num_pieces(int64_t rows, int64_t edges, int64_t row_elements) {
  constexpr int64_t kElementsPerPiece = 1 << 18;
  constexpr int64_t kMaxPieces = 1024;
  constexpr int64_t kElementsOfStep = 32;  // what is spent on an edge whatever its size
  const int64_t per_step = row_elements > kElementsOfStep ? row_elements : kElementsOfStep;
  const int64_t pieces = (rows + edges) / (kElementsPerPiece / per_step + 1) + 1;
  return pieces < kMaxPieces ? pieces : kMaxPieces;
}

}  // namespace smex
