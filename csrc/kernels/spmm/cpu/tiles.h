// What loops over vectors of a row have in common. Included by kernels that are compiled per
// instruction set.
#pragma once

#include "kernels/cpu/simd.h"
#include "kernels/spmm/spmm.h"

namespace smex::kernels::SMEX_ISA {

/// Which row of an operand belongs to position k: a node at the other end, or an edge.
template <typename T, typename I>
struct Rows {
  const T* data = nullptr;
  const I* ids = nullptr;  ///< null: the position itself
  int64_t size = 0;

  SMEX_INLINE const T* at(int64_t k) const { return data + (ids ? int64_t{ids[k]} : k) * size; }
};

template <typename T, typename I>
Rows<T, I> rows_of(const SpmmTask<T, I>& task, const ProgramOperand& read) {
  return {task.operands[read.index],
          read.target == Target::kSource ? task.rows.indices : task.rows.eids,
          read.broadcast.row_size};
}

/// Covers `n` elements with vectors of W lanes, the widest runs of them first.
template <int W, int NV, typename Tile>
SMEX_INLINE void cover_from(int64_t& first, int64_t n, const Tile& tile) {
  while (n - first >= NV * W) {
    tile(std::integral_constant<int, W>(), std::integral_constant<int, NV>(), first,
         first + (NV - 1) * W);
    first += NV * W;
  }
  if constexpr (NV > 1) {
    cover_from<W, NV / 2>(first, n, tile);
  } else if (first < n) {  // fewer than W are left: begin earlier
    tile(std::integral_constant<int, W>(), std::integral_constant<int, 1>(), n - W, n - W);
    first = n;
  }
}

/// Calls `tile(W, NV, first, last)` until all of `n` elements are covered. A row narrower than W
/// takes fewer lanes. With `kHeads`, W divides `inner`, which 4 divides.
template <int W, int NV, bool kHeads, typename Tile>
SMEX_INLINE void cover(int64_t n, int64_t inner, const Tile& tile) {
  if constexpr (W > (kHeads ? 4 : 1)) {
    if (kHeads ? inner % W != 0 : n < W)
      return cover<W / 2, kHeads ? NV : 1, kHeads>(n, inner, tile);
  }
  int64_t first = 0;
  cover_from<W, NV>(first, n, tile);
}

}  // namespace smex::kernels::SMEX_ISA
