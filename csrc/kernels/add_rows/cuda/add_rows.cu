#include "kernels/add_rows/cuda/add_rows.cuh"

namespace smex::kernels {

template void add_rows_cuda(const AddRows<float>&, CUstream_st*);
template void add_rows_cuda(const AddRows<double>&, CUstream_st*);
template void add_rows_cuda(const AddRows<BFloat16>&, CUstream_st*);
template void add_rows_cuda(const AddRows<Half>&, CUstream_st*);

}  // namespace smex::kernels
