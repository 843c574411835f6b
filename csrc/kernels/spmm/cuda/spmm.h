#pragma once

#include "kernels/message/device_program.h"
#include "kernels/spmm/spmm.h"

struct CUstream_st;

namespace smex::kernels {

/// Does a whole task in device memory on `stream`; does not synchronise, the caller checks for
/// launch errors. `operands` hold device addresses; `device` is the program, its data not yet set.
///
/// With more than one piece, `shared` and `shared_winner` are as described in SpmmTask; the latter
/// is needed where `winner` is. No atomics: results depend on the number of pieces alone.
template <typename T, typename I>
void spmm_cuda(const SpmmTask<T, I>& task, const DeviceProgram& device, CUstream_st* stream);

}  // namespace smex::kernels
