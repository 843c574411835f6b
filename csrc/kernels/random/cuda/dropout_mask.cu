#include "kernels/random/dropout_mask.h"

#include <cuda_runtime.h>

namespace smex::kernels {
namespace {

// One Philox block serves four elements, so a thread takes four neighbours.
constexpr int kElementsPerThread = 4;
constexpr int kThreads = 256;
// Enough blocks to fill any device; the loop strides over the rest.
constexpr int64_t kMaxBlocks = 1 << 16;

template <typename Bits>
__global__ void dropout_mask_kernel(GlobalBox box, DropoutDraw<Bits> draw, Bits* out) {
  const int64_t stride = int64_t{gridDim.x} * kThreads * kElementsPerThread;
  int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kElementsPerThread;
  for (; first < box.numel; first += stride) {
    uint64_t drawn = ~uint64_t{0};
    PhiloxBlock block;
#pragma unroll
    for (int i = 0; i < kElementsPerThread; ++i) {
      if (first + i >= box.numel) break;
      const uint64_t global = static_cast<uint64_t>(box.global_index(first + i));
      if (global / 4 != drawn) {
        drawn = global / 4;
        block = draw.random.block(drawn);
      }
      // A chosen word, not an indexed one: an index known only at run time would move the block
      // from registers to local memory.
      const int lane = static_cast<int>(global % 4);
      const uint32_t low = lane & 1 ? block.words[1] : block.words[0];
      const uint32_t high = lane & 1 ? block.words[3] : block.words[2];
      out[first + i] = draw.value(lane & 2 ? high : low);
    }
  }
}

}  // namespace

template <typename Bits>
void dropout_mask_cuda(const GlobalBox& box, const DropoutDraw<Bits>& draw, Bits* out,
                       CUstream_st* stream) {
  if (box.numel == 0) return;
  const int64_t per_block = int64_t{kThreads} * kElementsPerThread;
  const int64_t blocks = (box.numel + per_block - 1) / per_block;
  const auto grid = static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
  dropout_mask_kernel<<<grid, kThreads, 0, stream>>>(box, draw, out);
}

template void dropout_mask_cuda(const GlobalBox&, const DropoutDraw<uint16_t>&, uint16_t*,
                                CUstream_st*);
template void dropout_mask_cuda(const GlobalBox&, const DropoutDraw<uint32_t>&, uint32_t*,
                                CUstream_st*);
template void dropout_mask_cuda(const GlobalBox&, const DropoutDraw<uint64_t>&, uint64_t*,
                                CUstream_st*);

}  // namespace smex::kernels
