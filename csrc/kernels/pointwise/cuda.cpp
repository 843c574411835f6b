#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/pointwise/cuda/pointwise.h"
#include "kernels/pointwise/operator.h"

namespace smex::kernels {
namespace {

struct CudaKernel {
  static bool takes(const PointwiseProgram& program, at::ScalarType type) {
    const bool has_type =
        type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16;
    return has_type && fits_device(program);
  }

  template <typename T>
  void operator()(const PointwiseTask<T>& task, int64_t rows, int64_t width,
                  const at::Tensor& like) const {
    const c10::cuda::CUDAGuard guard(like.device());
    pointwise_cuda(task, rows, width, c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(smex, CUDA, m) {
  m.impl("pointwise", PointwiseBy<CudaKernel>::call);
  m.impl("pointwise_into", PointwiseBy<CudaKernel>::into);
}

}  // namespace smex::kernels
