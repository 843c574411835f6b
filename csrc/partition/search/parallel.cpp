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
  {
    std::vector<std::jthread> others;  // each is joined in the end
    while (others.size() + 1 < std::min(count, most)) others.emplace_back(work);
    work();
  }
  for (const std::exception_ptr& error : thrown) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace smex
