#pragma once

#include <cstdint>

#include "edges/rows.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/isa.h"

namespace smex::kernels {

/// Softmax over the edges of each row, and its gradient:
/// `out[e] = exp(score[e] - max) / sum` and `out[e] = y[e] * (grad[e] - sum of y * grad)`.
template <typename T, typename I>
struct EdgeSoftmaxTask {
  EdgeRows<I> rows;
  int64_t elements = 1;      ///< numbers per edge, each with a softmax of its own
  const T* score = nullptr;  ///< [num_edges, elements], by edge id; the gradient: y
  const T* grad = nullptr;   ///< as score; null: forward
  T* out = nullptr;          ///< as score
  int64_t num_pieces = 1;
  /// [num_pieces, 2 parts, 2, elements]: the largest and the sum of what a piece has of a shared
  /// row; after `edge_softmax_finish` those of the whole row.
  accumulate_t<T>* shared = nullptr;
};

// The rows that lie within a piece, for the pieces `begin` to `end`; of others the statistics.
SMEX_FOR_EACH_ISA(template <typename T, typename I>
                  void edge_softmax_pieces(const EdgeSoftmaxTask<T, I>& task, int64_t begin,
                                           int64_t end);)

// After all pieces: brings the statistics of shared rows together.
SMEX_FOR_EACH_ISA(template <typename T, typename I>
                  void edge_softmax_finish(const EdgeSoftmaxTask<T, I>& task);)

// After that: the rows that pieces share.
SMEX_FOR_EACH_ISA(template <typename T, typename I>
                  void edge_softmax_shared(const EdgeSoftmaxTask<T, I>& task, int64_t begin,
                                           int64_t end);)

}  // namespace smex::kernels
