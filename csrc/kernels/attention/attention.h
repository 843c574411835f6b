#pragma once

#include <cstdint>

#include "edges/rows.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/isa.h"
#include "kernels/message/program.h"

namespace smex::kernels {

/// Attention over the edges into each row, per head:
///
///   weight = softmax of score over the row's edges, out[v] = sum of weight(u, v) * value[u]
///
/// No number is stored per edge. Scores are in C, the type that T's sums are accumulated in.
template <typename T, typename I>
struct AttentionTask {
  using C = accumulate_t<T>;
  EdgeRows<I> rows;  ///< by destination
  int64_t heads = 1, inner = 1;
  const T* value = nullptr;  ///< [sources, heads, inner]
  T* out = nullptr;          ///< [destinations, heads, inner]; 0 without in-edges
  C* largest = nullptr;      ///< [destinations, heads], of the scores; 0 without in-edges
  C* sum = nullptr;          ///< [destinations, heads], of exp(score - largest); 1 without in-edges
  int64_t num_pieces = 1;
  C* shared = nullptr;  ///< [num_pieces, 2 parts, heads * (inner + 2)]
};

/// Scores by a formula on messages with one value per head.
template <typename T, typename I>
struct FormulaAttentionTask : AttentionTask<T, I> {
  const MessageProgram* program = nullptr;  ///< program->out_elements == heads
  const T* const* operands = nullptr;       ///< by index: [rows of the target, elements]
};

// Does the pieces `begin` to `end`; those of different threads may be done at the same time.
SMEX_FOR_EACH_ISA(template <typename T, typename I>
                  void attention_pieces(const FormulaAttentionTask<T, I>& task, int64_t begin,
                                        int64_t end);)
// After all pieces: puts together the rows that several of them share.
SMEX_FOR_EACH_ISA(template <typename T, typename I>
                  void attention_finish(const AttentionTask<T, I>& task);)

}  // namespace smex::kernels
