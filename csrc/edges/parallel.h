// Workers that are torch's threads.
#pragma once

#include <ATen/Parallel.h>

#include "edges/workers.h"

namespace smex {

/// torch's threads; one where the caller is one of several already.
inline Workers torch_workers() {
  return {.count = at::in_parallel_region() ? 1 : at::get_num_threads(),
          .run = [](int64_t count, const Workers::Task& task) {
            at::parallel_for(0, count, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
              for (int64_t i = begin; i < end; ++i) task(i);
            });
          }};
}

}  // namespace smex
