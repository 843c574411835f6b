#include "kernels/spmm/cuda/spmm.cuh"

namespace smex::kernels {

template void spmm_cuda(const SpmmTask<double, int32_t>&, const DeviceProgram&, CUstream_st*);
template void spmm_cuda(const SpmmTask<double, int64_t>&, const DeviceProgram&, CUstream_st*);

}  // namespace smex::kernels
