#pragma once

#include <cstdint>

#include "kernels/attention/attention.h"

namespace smex::kernels {

/// score(u, v) = leaky_relu(left[u] + right[v]) (Veličković et al., "Graph Attention Networks",
/// ICLR'18, §2.1).
template <typename T, typename I>
struct GatForwardTask : AttentionTask<T, I> {
  using C = accumulate_t<T>;
  C slope = 0;               ///< of leaky_relu, below 0
  const C* left = nullptr;   ///< [sources, heads]
  const C* right = nullptr;  ///< [destinations, heads]
};

/// The gradients of all that GatForwardTask reads, with the weights computed again.
///
/// Where the graph is divided, `grad_right` is nullptr, and a second task with rows by destination
/// finds it: there `left` and `value` are the destinations' right scores and gradients, `grad` is
/// the sources' values, `state` [sources, heads] their left scores, `row_state` is given, and
/// `grad_value` is nullptr.
template <typename T, typename I>
struct GatBackwardTask {
  using C = accumulate_t<T>;
  EdgeRows<I> rows;  ///< by source
  int64_t num_destinations = 0;
  int64_t heads = 1, inner = 1;
  C slope = 0;
  const C* left = nullptr;       ///< [sources, heads]
  const C* right = nullptr;      ///< [destinations, heads]
  const C* log_sum = nullptr;    ///< [destinations, heads]: log of the sum of exp(score)
  const T* value = nullptr;      ///< [sources, heads, inner]
  const T* out = nullptr;        ///< [destinations, heads, inner], of the forward pass
  const T* grad = nullptr;       ///< as out
  C* state = nullptr;            ///< [destinations, 3, heads]: right, log_sum, sum of grad * out
  const C* row_state = nullptr;  ///< [rows, 2, heads]: log_sum and sum of grad * out, if of rows
  C* grad_left = nullptr;        ///< [sources, heads]
  C* grad_right = nullptr;       ///< [copies, destinations, heads], zero before; to be added up
  T* grad_value = nullptr;       ///< [sources, heads, inner]
  int64_t num_pieces = 1;
  C* shared = nullptr;  ///< [num_pieces, 2 parts, heads * (inner + 1)]
};

// Does the pieces `begin` to `end`; those of different threads may be done at the same time. After
// all of them, `attention_finish`.
SMEX_FOR_EACH_ISA(template <typename T, typename I>
                  void gat_forward_pieces(const GatForwardTask<T, I>& task, int64_t begin,
                                          int64_t end);)

// Fills `state` for the destinations `begin` to `end`, all of them before the pieces.
SMEX_FOR_EACH_ISA(template <typename T, typename I>
                  void gat_backward_states(const GatBackwardTask<T, I>& task, int64_t begin,
                                           int64_t end);)
// As above; threads at work at the same time have a `copy` of grad_right each.
SMEX_FOR_EACH_ISA(template <typename T, typename I>
                  void gat_backward_pieces(const GatBackwardTask<T, I>& task, int64_t begin,
                                           int64_t end, int64_t copy);)
SMEX_FOR_EACH_ISA(template <typename T, typename I>
                  void gat_backward_finish(const GatBackwardTask<T, I>& task);)

}  // namespace smex::kernels
