#pragma once

#include "kernels/tree_lstm/tree_lstm.h"

struct CUstream_st;

namespace smex::kernels {

/// The most children of a cell that the kernels take: they are told of each by a parameter.
constexpr int64_t kMostDeviceChildren = 32;

/// All `rows` rows of a task whose tensors are in device memory, and whose lists (`places`,
/// `cells`, `cell_strides`) are in the host's; these are read before the return. At most
/// kMostDeviceChildren children. Runs on `stream` and does not synchronise; the caller checks for
/// launch errors. `grad_gates` may be `gates`. Deterministic: no two threads write one element.
template <typename T>
void cell_forward_cuda(const CellForward<T>& task, int64_t rows, CUstream_st* stream);
template <typename T>
void cell_backward_cuda(const CellBackward<T>& task, int64_t rows, CUstream_st* stream);

}  // namespace smex::kernels
