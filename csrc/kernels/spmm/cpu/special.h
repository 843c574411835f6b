// Messages that have loops of their own, each in a file that is compiled per instruction set.
#pragma once

#include "kernels/spmm/spmm.h"

namespace smex::kernels::SMEX_ISA {

/// The piece of a sum or mean of products; false where none of its loops fits.
template <typename T, typename I>
bool run_sum(const SpmmTask<T, I>& task, int64_t index);

/// The piece of a maximum or minimum of an operand; false where all edges share it.
template <typename T, typename I>
bool run_extremum(const SpmmTask<T, I>& task, int64_t index);

}  // namespace smex::kernels::SMEX_ISA
