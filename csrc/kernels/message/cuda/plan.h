#pragma once

#include <algorithm>
#include <cstdint>

namespace smex::kernels {

/// How many pieces rows and edges are divided into on a GPU when `threads` threads work on each.
///
/// Few steps each where there is little work, so that all of the GPU has some. Results depend on
/// the number of pieces, so it depends on the sizes alone and not on the device.
inline int64_t num_cuda_pieces(int64_t rows, int64_t edges, int64_t threads) {
  constexpr int64_t kWantedThreads = 1 << 18;  // about what the largest of today's GPUs holds
  constexpr int64_t kLeastSteps = 16, kMostSteps = 256;
  const int64_t steps = std::max<int64_t>(1, rows + edges);
  const int64_t wanted =
      steps / std::max<int64_t>(1, kWantedThreads / std::max<int64_t>(1, threads));
  const int64_t each = std::clamp(wanted, kLeastSteps, kMostSteps);
  return (steps + each - 1) / each;
}

}  // namespace smex::kernels
