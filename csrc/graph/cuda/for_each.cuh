// What the kernels of the graph index are made of.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace smex::graph {

constexpr int kThreads = 256;
// Enough blocks to fill any device; the loops stride over the rest.
constexpr int64_t kMaxBlocks = 1 << 16;

inline unsigned blocks_for(int64_t size) {
  const int64_t blocks = (size + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

/// Calls `body(i)` for every i below `size`.
template <typename Body>
__global__ void for_each_kernel(int64_t size, Body body) {
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < size; i += stride) body(i);
}

template <typename Body>
void for_each(int64_t size, cudaStream_t stream, const Body& body) {
  for_each_kernel<<<blocks_for(size), kThreads, 0, stream>>>(size, body);
}

inline __device__ bool is_in(int64_t id, int64_t size) { return id >= 0 && id < size; }

/// The first place in the ascending `values[begin .. end)` that is not below `value`, or, with
/// `after`, that is above it.
template <typename Index>
__device__ int64_t bound(const Index* values, int64_t begin, int64_t end, int64_t value,
                         bool after) {
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    const bool below = after ? values[middle] <= value : values[middle] < value;
    if (below) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

inline __device__ void keep_least(int64_t* to, int64_t value) {
  atomicMin(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}

static inline void set(int64_t* to, int64_t value, cudaStream_t stream) {
  for_each(1, stream, [=] __device__(int64_t) { *to = value; });
}

}  // namespace smex::graph
