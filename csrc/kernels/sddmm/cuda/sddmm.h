#pragma once

#include "kernels/message/device_program.h"
#include "kernels/sddmm/sddmm.h"

struct CUstream_st;

namespace smex::kernels {

/// Does a whole task in device memory on `stream`; does not synchronise, the caller checks for
/// launch errors. `operands` hold device addresses; `device` is the program, its data not yet set.
/// `num_pieces` does not matter. No atomics.
template <typename T, typename I>
void sddmm_cuda(const SddmmTask<T, I>& task, const DeviceProgram& device, CUstream_st* stream);

}  // namespace smex::kernels
