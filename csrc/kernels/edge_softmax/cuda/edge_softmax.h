#pragma once

#include "kernels/edge_softmax/edge_softmax.h"

struct CUstream_st;

namespace smex::kernels {

/// Does a whole task in device memory on `stream`; does not synchronise, the caller checks for
/// launch errors. No atomics: results depend on the number of pieces alone.
template <typename T, typename I>
void edge_softmax_cuda(const EdgeSoftmaxTask<T, I>& task, CUstream_st* stream);

}  // namespace smex::kernels
