#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "edges/workers.h"

namespace smex::graph {

/// Rows of a column that lie in several places.
struct RowPieces {
  /// Where each piece's rows begin, ascending, and where the last one's end.
  std::vector<int64_t> starts;
  /// The first byte of each piece; null where it is not here.
  std::vector<const std::byte*> data;
  int64_t row_bytes = 0;
};

/// Copies the rows `ids[0 .. count)` to `out`, one after another; those of pieces that are not here
/// are left as they are, with 1 in `is_missing[i]` and 0 elsewhere. Returns the place of the first
/// id that no piece has, or -1.
int64_t gather_rows(const RowPieces& pieces, const int64_t* ids, int64_t count, std::byte* out,
                    uint8_t* is_missing, const Workers& workers);

}  // namespace smex::graph
