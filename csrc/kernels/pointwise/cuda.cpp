#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/pointwise/cuda/pointwise.h"
#include "kernels/pointwise/operator.h"

namespace smex::kernels {
namespace {

struct CudaKernel {
  static bool takes(const PointwiseProgram& program, const at::TensorIterator& iterator) {
    return fits_device(program) && iterator.ndim() <= DevicePointwise::kMaxDims;
  }

  static bool run_by_rows(const PointwiseProgram&, at::TensorList, at::TensorList) {
    return false;  // a thread has one element of a row
  }

  template <typename T>
  static void run(const PointwiseProgram& program, at::TensorIterator& iterator) {
    const c10::cuda::CUDAGuard guard(iterator.device());
    std::vector<PointwiseTensor> tensors;
    std::vector<bool> bools;
    for (int i = 0; i < iterator.ntensors(); ++i) {
      PointwiseTensor& tensor = tensors.emplace_back();
      tensor.data = iterator.data_ptr(i);
      bools.push_back(iterator.dtype(i) == at::kBool);
      const auto strides = iterator.strides(i);
      for (size_t d = 0; d < strides.size(); ++d)
        tensor.strides[d] = strides[d] / iterator.element_size(i);
    }
    const auto sizes = iterator.shape();
    pointwise_cuda<T>(program, bools, sizes.data(), sizes.size(), tensors.data(),
                      c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(smex, CUDA, m) {
  m.impl("pointwise", PointwiseBy<CudaKernel>::call);
  m.impl("pointwise_into", PointwiseBy<CudaKernel>::into);
}

}  // namespace smex::kernels
