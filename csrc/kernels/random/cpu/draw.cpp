#include "kernels/random/draw.h"

#include <algorithm>

namespace smex::kernels {

GlobalBox GlobalBox::make(int rank, const int64_t* sizes, const int64_t* offset,
                          const int64_t* global_shape) {
  GlobalBox box;
  // Filled from the innermost dimension outwards, then reversed.
  int filled = 0;
  int64_t stride = 1;
  for (int d = rank - 1; d >= 0; --d) {
    box.origin += offset[d] * stride;
    box.numel *= sizes[d];
    const bool adjacent = filled > 0 && box.strides[filled - 1] * box.sizes[filled - 1] == stride;
    if (adjacent) {
      box.sizes[filled - 1] *= sizes[d];
    } else {
      box.sizes[filled] = sizes[d];
      box.strides[filled] = stride;
      ++filled;
    }
    stride *= global_shape[d];
  }
  box.rank = std::max(filled, 1);
  std::reverse(box.sizes, box.sizes + box.rank);
  std::reverse(box.strides, box.strides + box.rank);
  return box;
}

namespace {

// `count` elements that are consecutive in the global tensor too.
template <typename Draw>
void fill_run(const Draw& draw, uint64_t global, int64_t count, typename Draw::Value* out) {
  constexpr int n = Draw::kPerBlock;
  int64_t done = 0;
  while (done < count) {
    const PhiloxBlock block = draw.random.block(global / n);
    const int lane = static_cast<int>(global % n);
    const int taken = static_cast<int>(std::min<int64_t>(n - lane, count - done));
    for (int i = 0; i < taken; ++i) out[done + i] = draw.value(block, lane + i);
    done += taken;
    global += taken;
  }
}

}  // namespace

template <typename Draw>
void draw_cpu(const GlobalBox& box, const Draw& draw, int64_t begin, int64_t end,
              typename Draw::Value* out) {
  const int64_t row = box.sizes[box.rank - 1];
  for (int64_t i = begin; i < end;) {
    const int64_t count = std::min(row - i % row, end - i);
    fill_run(draw, static_cast<uint64_t>(box.global_index(i)), count, out + i);
    i += count;
  }
}

#define SMEX_INSTANTIATE(Draw) \
  template void draw_cpu(const GlobalBox&, const Draw&, int64_t, int64_t, Draw::Value*);
SMEX_FOR_EACH_DRAW(SMEX_INSTANTIATE)
#undef SMEX_INSTANTIATE

}  // namespace smex::kernels
