#pragma once

#include <cstdint>

#include "edges/rows.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/isa.h"
#include "kernels/message/program.h"

namespace smex::kernels {

/// Generalised sampled dense-dense product: `out[e] = message(u, v, e)` for every edge e = (u, v),
/// summed over the dimensions that the program reduces (thesis §4.6.2).
template <typename T, typename I>
struct SddmmTask {
  EdgeRows<I> rows;
  const MessageProgram* program = nullptr;
  const T* const* operands = nullptr;  ///< by index: [rows of the target, elements]
  T* out = nullptr;                    ///< [num_edges, program->out_elements], by edge id
  int64_t num_pieces = 1;
};

// Does the pieces `begin` to `end`; those of different threads may be done at the same time.
SMEX_FOR_EACH_ISA(template <typename T, typename I>
                  void sddmm_pieces(const SddmmTask<T, I>& task, int64_t begin, int64_t end);)

}  // namespace smex::kernels
