#include "vertex/beside.h"

#include <algorithm>
#include <numeric>

namespace smex::vertex {
namespace {

/// The time of a task that has all threads to itself, in multiplications of one thread.
double time_alone(double work, int threads) {
  return work / std::clamp(work / kWorkOfThread, 1.0, static_cast<double>(threads));
}

}  // namespace

std::vector<std::vector<size_t>> tasks_of_threads(std::span<const double> work, int threads) {
  if (threads < 2 || work.size() < 2) return {};
  std::vector<size_t> order(work.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return work[a] > work[b]; });
  std::vector<std::vector<size_t>> found(std::min<size_t>(threads, work.size()));
  std::vector<double> busy(found.size());
  double in_turn = 0;
  for (const size_t task : order) {
    const size_t first = std::min_element(busy.begin(), busy.end()) - busy.begin();
    found[first].push_back(task);
    busy[first] += work[task];
    in_turn += time_alone(work[task], threads);
  }
  if (*std::max_element(busy.begin(), busy.end()) + kWorkOfStart >= in_turn) return {};
  return found;
}

}  // namespace smex::vertex
