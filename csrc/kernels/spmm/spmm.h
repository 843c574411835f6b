#pragma once

#include <cstdint>
#include <memory>

#include "edges/rows.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/isa.h"
#include "kernels/message/program.h"

namespace smex::kernels {

enum class Reduce : uint8_t { kSum, kMean, kMax, kMin };

/// Generalised sparse-dense product: `out[v] = reduce over edges e = (u, v) of message(u, v, e)`
/// (thesis §4.6.2).
template <typename T, typename I>
struct SpmmTask {
  EdgeRows<I> rows;
  const MessageProgram* program = nullptr;
  const T* const* operands = nullptr;  ///< by index: [rows of the target, elements]
  Reduce reduce = Reduce::kSum;
  T empty = {};         ///< the result of a row without edges, for max and min
  T* out = nullptr;     ///< [num_rows, program->out_elements]
  I* winner = nullptr;  ///< [num_rows, out_elements] positions, -1 for none; null: not wanted

  int64_t num_pieces = 1;
  /// What pieces know of rows that they share with a neighbour: [num_pieces, 2, out_elements], of
  /// the row a piece begins inside of, and of the row it ends inside of.
  accumulate_t<T>* shared = nullptr;
  I* shared_winner = nullptr;  ///< as `shared`, where `winner` is wanted
};

// Does the pieces `begin` to `end`; those of different threads may be done at the same time.
SMEX_FOR_EACH_ISA(template <typename T, typename I>
                  void spmm_pieces(const SpmmTask<T, I>& task, int64_t begin, int64_t end);)

// After all pieces: puts together the rows that several of them share. A few rows only.
SMEX_FOR_EACH_ISA(template <typename T, typename I> void spmm_finish(const SpmmTask<T, I>& task);)

}  // namespace smex::kernels
