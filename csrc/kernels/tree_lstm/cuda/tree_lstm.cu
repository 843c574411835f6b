#include "kernels/tree_lstm/cuda/tree_lstm.cuh"

namespace smex::kernels {

#define SMEX_INSTANTIATE(T)                                                      \
  template void cell_forward_cuda(const CellForward<T>&, int64_t, CUstream_st*); \
  template void cell_backward_cuda(const CellBackward<T>&, int64_t, CUstream_st*);
SMEX_INSTANTIATE(float)
SMEX_INSTANTIATE(double)
SMEX_INSTANTIATE(BFloat16)
SMEX_INSTANTIATE(Half)
#undef SMEX_INSTANTIATE

}  // namespace smex::kernels
