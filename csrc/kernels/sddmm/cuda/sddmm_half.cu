#include "kernels/sddmm/cuda/sddmm.cuh"

namespace smex::kernels {

template void sddmm_cuda(const SddmmTask<Half, int32_t>&, const DeviceProgram&, CUstream_st*);
template void sddmm_cuda(const SddmmTask<Half, int64_t>&, const DeviceProgram&, CUstream_st*);

}  // namespace smex::kernels
