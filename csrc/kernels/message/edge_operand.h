// The operands of a message, edge by edge. Included by kernels that are compiled per instruction
// set.
#pragma once

#include "edges/rows.h"
#include "kernels/cpu/simd.h"
#include "kernels/message/program.h"

namespace smex::kernels::SMEX_ISA {

/// The row of an operand that belongs to an edge.
template <typename T, typename I>
struct EdgeOperand {
  const T* data = nullptr;
  const I* ids = nullptr;   ///< by position; null: the position itself
  int64_t edge_stride = 0;  ///< elements from one id to the next; 0 where all edges share
  int64_t row_stride = 0;   ///< as above, for destinations

  EdgeOperand(const EdgeRows<I>& rows, const T* const* operands, const MessageOperand& read)
      : data(operands[read.index]) {
    const int64_t size = read.broadcast.row_size;
    if (read.target == Target::kShared) return;
    if (read.target == Target::kDestination) {
      row_stride = size;
      return;
    }
    ids = read.target == Target::kSource ? rows.indices : rows.eids;
    edge_stride = size;
  }

  SMEX_INLINE bool is_per_edge() const { return edge_stride != 0; }
  SMEX_INLINE const T* at(int64_t row, int64_t k) const {
    return data + row * row_stride + (ids ? int64_t{ids[k]} : k) * edge_stride;
  }
};

/// Asks for the rows of an operand that will be read, where each edge has its own.
template <typename T, typename I>
SMEX_INLINE void prefetch_operand(const EdgeOperand<T, I>& x, const Ahead& ahead, int64_t row) {
  if (x.is_per_edge())
    prefetch_rows(x.at(row, ahead.far), x.at(row, ahead.near),
                  x.edge_stride * static_cast<int64_t>(sizeof(T)));
}

}  // namespace smex::kernels::SMEX_ISA
