#pragma once

/// Marks a function that both the CPU and the CUDA kernels call.
#if defined(__CUDACC__)
#define SMEX_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define SMEX_HOST_DEVICE inline
#endif
