#pragma once

/// For all that a kernel inlines from outside of its instruction set's namespace: the linker could
/// give a copy made for a wider instruction set to everyone.
#define SMEX_INLINE inline __attribute__((always_inline))

/// Marks a function that both the CPU and the CUDA kernels call.
#if defined(__CUDACC__)
#define SMEX_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define SMEX_HOST_DEVICE SMEX_INLINE
#endif
