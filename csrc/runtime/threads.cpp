#include "runtime/threads.h"

#include <ATen/Parallel.h>
#include <omp.h>

namespace smex::runtime {

ScopedIntraOpThreads::ScopedIntraOpThreads(int num_threads) {
  previous_ = at::get_num_threads();  // ATen's first call on a thread sets OpenMP's number itself
  changed_ = num_threads != previous_;
  if (changed_) omp_set_num_threads(num_threads);
}

ScopedIntraOpThreads::~ScopedIntraOpThreads() {
  if (changed_) omp_set_num_threads(previous_);
}

}  // namespace smex::runtime
