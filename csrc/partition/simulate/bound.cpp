#include "partition/simulate/bound.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <utility>

#include "partition/simulate/dependences.h"

namespace smex {
namespace {

/// A message on a port, or what else one machine does one of at a time.
struct Job {
  double head = 0;  ///< before it can begin
  double seconds = 0;
  double tail = 0;  ///< after it has ended
};

/// Until the last tail has ended, where of the jobs that can run the one of the longest tail does,
/// and is interrupted by those of longer ones.
double preemptive_seconds(std::vector<Job> jobs) {
  std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.head < b.head; });
  std::priority_queue<std::pair<double, double>> open;  // tail, seconds left
  double now = 0, end = 0;
  for (size_t next = 0; next < jobs.size() || !open.empty();) {
    if (open.empty()) now = std::max(now, jobs[next].head);
    for (; next < jobs.size() && jobs[next].head <= now; ++next) {
      open.emplace(jobs[next].tail, jobs[next].seconds);
    }
    const auto [tail, left] = open.top();
    open.pop();
    const double until = next < jobs.size() ? std::min(now + left, jobs[next].head) : now + left;
    if (until < now + left) {
      open.emplace(tail, left - (until - now));
    } else {
      end = std::max(end, until + tail);
    }
    now = until;
  }
  return end;
}

}  // namespace

double least_seconds(const Program& program, const InstrSeconds& seconds,
                     const Transfers& transfers, bool backward) {
  const Dependences dependences(program, seconds, transfers, backward, /*in_order=*/true);
  const Dependences::Paths paths = dependences.paths();
  double least = paths.longest;
  for (const auto& lists : seconds) {
    least = std::max(least, std::accumulate(lists[backward].begin(), lists[backward].end(), 0.0));
  }
  std::map<int, std::vector<Job>> moved;  // by port
  for (int n = 0; n < transfers.size(); ++n) {
    for (const int port : transfers[n].ports) {
      const int node = dependences.node_of_transfer(n);
      moved[port].push_back(
          {paths.heads[node], transfers[n].seconds, transfers[n].latency + paths.tails[node]});
    }
  }
  for (auto& [port, jobs] : moved) {
    least = std::max(least, preemptive_seconds(std::move(jobs)));
  }
  return least;
}

}  // namespace smex
