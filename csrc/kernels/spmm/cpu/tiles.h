// What loops over vectors of a row have in common. Included by kernels that are compiled per
// instruction set.
#pragma once

#include "kernels/cpu/simd.h"
#include "kernels/spmm/spmm.h"

namespace smex::kernels::SMEX_ISA {

/// Which row of an operand belongs to position k: a node at the other end, or an edge.
template <typename T, typename I>
struct OperandRows {
  const T* data = nullptr;
  const I* ids = nullptr;  ///< null: the position itself
  int64_t size = 0;

  SMEX_INLINE const T* at(int64_t k) const { return data + (ids ? int64_t{ids[k]} : k) * size; }
};

template <typename T, typename I>
OperandRows<T, I> rows_of(const SpmmTask<T, I>& task, const MessageOperand& read) {
  return {task.operands[read.index],
          read.target == Target::kSource ? task.rows.indices : task.rows.eids,
          read.broadcast.row_size};
}

/// The same pointer, of which the compiler knows nothing: constants that are added to it stay in
/// the addresses of instructions, where sums known before a loop would take a register each.
template <typename T>
SMEX_INLINE T* opaque(T* pointer) {
  asm("" : "+r"(pointer));
  return pointer;
}

/// NV vectors of W lanes that cover more than NV / 2 of them, up to all NV: the first half begins
/// at `front`, the second ends where the elements end. The two overlap where there are fewer than
/// NV * W, so that one walk over the edges does for any width.
template <int W, int NV>
struct Tile {
  int64_t front = 0, back = 0;  ///< where the halves begin

  Tile(int64_t first, int64_t last) : front(first), back(last - (NV - NV / 2) * W) {}

  /// Where the j-th vector begins.
  SMEX_INLINE int64_t at(int j) const {
    return j < NV / 2 ? front + j * W : back + (j - NV / 2) * W;
  }

  /// The tile of a row.
  template <typename T>
  struct Row {
    T *front, *back;

    SMEX_INLINE T* at(int j) const { return j < NV / 2 ? front + j * W : back + (j - NV / 2) * W; }
  };
  template <typename T>
  SMEX_INLINE Row<T> of(T* row) const {
    return {opaque(row + front), opaque(row + back)};
  }
};

/// Asks for the lines of a tile of the rows at `far` and at `near`: those that begin with the
/// front's vectors and end with the back's, so that a row which begins anywhere in a line has its
/// last line among them.
template <typename T, int W, int NV>
SMEX_INLINE void prefetch_tile(const Tile<W, NV>& tile, const T* far, const T* near) {
  constexpr int kBytes = W * static_cast<int>(sizeof(T)), kBack = (NV - NV / 2) * kBytes;
  const auto later = tile.of(far), soon = tile.of(near);
  if constexpr (NV > 1) prefetch<NV / 2 * kBytes>(later.front, soon.front);
  constexpr int kFirst = (kBack - 1) % kCacheLine;
  const auto ask_from = [](const T* back) { return reinterpret_cast<const char*>(back) + kFirst; };
  prefetch<kBack - kFirst>(ask_from(later.back), ask_from(soon.back));
}

/// Covers the elements from `first` to `n` with one tile, or several where there are too many.
template <int W, int NV, typename Visit>
SMEX_INLINE void cover_from(int64_t first, int64_t n, const Visit& visit) {
  for (; n - first >= NV * W; first += NV * W) visit(Tile<W, NV>(first, first + NV * W));
  if (first == n) return;
  if constexpr (NV > 1) {
    if (n - first <= NV / 2 * W) return cover_from<W, NV / 2>(first, n, visit);
    visit(Tile<W, NV>(first, n));
  } else {  // fewer than W are left: begin earlier
    visit(Tile<W, 1>(n - W, n));
  }
}

/// Calls `visit(Tile<W, NV>)` until all of `n` elements are covered. A row narrower than W takes
/// fewer lanes. With `kHeads`, W divides `inner`, which 4 divides.
template <int W, int NV, bool kHeads, typename Visit>
SMEX_INLINE void cover(int64_t n, int64_t inner, const Visit& visit) {
  if constexpr (W > (kHeads ? 4 : 1)) {
    if (kHeads ? inner % W != 0 : n < W)
      return cover<W / 2, kHeads ? NV : 1, kHeads>(n, inner, visit);
  }
  cover_from<W, NV>(0, n, visit);
}

}  // namespace smex::kernels::SMEX_ISA
