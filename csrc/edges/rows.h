#pragma once

#include <cstdint>

#include "host_device.h"

namespace smex {

/// Edges grouped by row, to read: those of row r lie at positions `indptr[r]` to `indptr[r + 1]`.
///
/// Rows are destinations and `indices` sources where messages are received (CSC), and the other way
/// round where gradients flow back (CSR). All arrays belong to the caller.
template <typename I>
struct EdgeRows {
  int64_t num_rows = 0;
  int64_t num_edges = 0;
  const I* indptr = nullptr;   ///< [num_rows + 1]
  const I* indices = nullptr;  ///< [num_edges], the node at the other end
  const I* eids = nullptr;     ///< [num_edges], the edge's id; null where it is the position

  SMEX_HOST_DEVICE int64_t begin(int64_t row) const { return indptr[row]; }
  SMEX_HOST_DEVICE int64_t end(int64_t row) const { return indptr[row + 1]; }

  /// The edge at a position.
  SMEX_HOST_DEVICE I eid(int64_t position) const {
    return eids ? eids[position] : static_cast<I>(position);
  }

  /// Whether `row` exists and its bounds lie inside.
  SMEX_HOST_DEVICE bool is_valid(int64_t row) const {
    return row >= 0 && row < num_rows && 0 <= begin(row) && begin(row) <= end(row) &&
           end(row) <= num_edges;
  }
};

}  // namespace smex
