#include "partition/search/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace smex {

void for_all(size_t count, const std::function<void(size_t)>& task) {
  std::vector<std::exception_ptr> thrown(count);
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        task(i);
      } catch (...) {
        thrown[i] = std::current_exception();
      }
    }
  };
  const size_t most = std::max(1u, std::thread::hardware_concurrency());
  if (count == 1) {
    work();
  } else {
    // The calling thread only waits: its heap may be that of a large program, in which allocations
    // take longer than in those of new threads.
    std::vector<std::jthread> threads;  // each is joined in the end
    while (threads.size() < std::min(count, most)) threads.emplace_back(work);
  }
  for (const std::exception_ptr& error : thrown) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace smex
