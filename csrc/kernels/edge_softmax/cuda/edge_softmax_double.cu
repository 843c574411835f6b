#include "kernels/edge_softmax/cuda/edge_softmax.cuh"

namespace smex::kernels {

template void edge_softmax_cuda(const EdgeSoftmaxTask<double, int32_t>&, CUstream_st*);
template void edge_softmax_cuda(const EdgeSoftmaxTask<double, int64_t>&, CUstream_st*);

}  // namespace smex::kernels
