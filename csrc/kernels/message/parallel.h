#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace smex::kernels {

/// Calls `f(begin, end)` until the pieces 0 to `count` are done, on torch's threads. A thread takes
/// more as soon as it is free: pieces of equal work do not take equal time.
template <typename Function>
void for_pieces(int64_t count, const Function& f) {
  constexpr int64_t kTurns = 8;  // so often a thread comes for more
  const int64_t threads = std::min<int64_t>(at::get_num_threads(), count);
  if (threads <= 1 || at::in_parallel_region()) {
    f(int64_t{0}, count);
    return;
  }
  const int64_t step = std::max<int64_t>(1, count / (threads * kTurns));
  std::atomic<int64_t> next = 0;
  at::parallel_for(0, threads, 1, [&](int64_t, int64_t) {
    for (;;) {
      const int64_t begin = next.fetch_add(step);
      if (begin >= count) return;
      f(begin, std::min(begin + step, count));
    }
  });
}

}  // namespace smex::kernels
