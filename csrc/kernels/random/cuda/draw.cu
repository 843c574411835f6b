#include "kernels/random/draw.h"

#include <cuda_runtime.h>

namespace smex::kernels {
namespace {

constexpr int kThreads = 256;
// Enough blocks to fill any device; the loop strides over the rest.
constexpr int64_t kMaxBlocks = 1 << 16;

// One Philox block serves several elements, so a thread takes as many neighbours.
template <typename Draw>
__global__ void draw_kernel(GlobalBox box, Draw draw, typename Draw::Value* out) {
  constexpr int n = Draw::kPerBlock;
  const int64_t stride = int64_t{gridDim.x} * kThreads * n;
  int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * n;
  for (; first < box.numel; first += stride) {
    uint64_t drawn = ~uint64_t{0};
    PhiloxBlock block;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      if (first + i >= box.numel) break;
      const uint64_t global = static_cast<uint64_t>(box.global_index(first + i));
      if (global / n != drawn) {
        drawn = global / n;
        block = draw.random.block(drawn);
      }
      out[first + i] = draw.value(block, static_cast<int>(global % n));
    }
  }
}

}  // namespace

template <typename Draw>
void draw_cuda(const GlobalBox& box, const Draw& draw, typename Draw::Value* out,
               CUstream_st* stream) {
  if (box.numel == 0) return;
  const int64_t per_block = int64_t{kThreads} * Draw::kPerBlock;
  const int64_t blocks = (box.numel + per_block - 1) / per_block;
  const auto grid = static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
  draw_kernel<<<grid, kThreads, 0, stream>>>(box, draw, out);
}

#define SMEX_INSTANTIATE(Draw) \
  template void draw_cuda(const GlobalBox&, const Draw&, Draw::Value*, CUstream_st*);
SMEX_FOR_EACH_DRAW(SMEX_INSTANTIATE)
#undef SMEX_INSTANTIATE

}  // namespace smex::kernels
