#include "kernels/pointwise/cuda/pointwise.cuh"

namespace smex::kernels {

#define SMEX_INSTANTIATE(T)                                                          \
  template void pointwise_cuda<T>(const PointwiseProgram&, const std::vector<bool>&, \
                                  const int64_t*, size_t, const PointwiseTensor*, CUstream_st*);
SMEX_INSTANTIATE(float)
SMEX_INSTANTIATE(double)
SMEX_INSTANTIATE(BFloat16)
SMEX_INSTANTIATE(Half)
#undef SMEX_INSTANTIATE

}  // namespace smex::kernels
