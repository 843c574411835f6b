#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/random/operator.h"

namespace smex::kernels {
namespace {

struct FillOnCuda {
  template <typename Draw>
  void operator()(const GlobalBox& box, const Draw& draw, const at::Tensor& out) const {
    const c10::cuda::CUDAGuard guard(out.device());
    auto* const data = static_cast<typename Draw::Value*>(out.mutable_data_ptr());
    draw_cuda(box, draw, data, c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(smex, CUDA, m) {
  m.impl("dropout_mask", RandomOn<FillOnCuda>::dropout_mask);
  m.impl("uniform", RandomOn<FillOnCuda>::uniform);
}

}  // namespace smex::kernels
