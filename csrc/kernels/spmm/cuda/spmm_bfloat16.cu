#include "kernels/spmm/cuda/spmm.cuh"

namespace smex::kernels {

template void spmm_cuda(const SpmmTask<BFloat16, int32_t>&, const DeviceProgram&, CUstream_st*);
template void spmm_cuda(const SpmmTask<BFloat16, int64_t>&, const DeviceProgram&, CUstream_st*);

}  // namespace smex::kernels
