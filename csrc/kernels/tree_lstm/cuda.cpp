#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/tree_lstm/cuda/tree_lstm.h"
#include "kernels/tree_lstm/operator.h"

namespace smex::kernels {
namespace {

struct CudaKernel {
  static bool takes(at::ScalarType type, int64_t children) {
    const bool has_type =
        type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16;
    return has_type && children <= kMostDeviceChildren;
  }

  template <typename T>
  void operator()(const CellForward<T>& task, int64_t rows, const at::Tensor& like) const {
    const c10::cuda::CUDAGuard guard(like.device());
    cell_forward_cuda(task, rows, c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  template <typename T>
  void operator()(const CellBackward<T>& task, int64_t rows, const at::Tensor& like) const {
    const c10::cuda::CUDAGuard guard(like.device());
    cell_backward_cuda(task, rows, c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(smex, CUDA, m) { TreeLstmBy<CudaKernel>::register_all(m); }

}  // namespace smex::kernels
