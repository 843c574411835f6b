#include "kernels/pointwise/cuda/pointwise.cuh"

namespace smex::kernels {

template void pointwise_cuda(const PointwiseTask<float>&, int64_t, int64_t, CUstream_st*);
template void pointwise_cuda(const PointwiseTask<double>&, int64_t, int64_t, CUstream_st*);
template void pointwise_cuda(const PointwiseTask<BFloat16>&, int64_t, int64_t, CUstream_st*);
template void pointwise_cuda(const PointwiseTask<Half>&, int64_t, int64_t, CUstream_st*);

}  // namespace smex::kernels
