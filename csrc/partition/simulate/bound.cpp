#include "partition/simulate/bound.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

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
/// and is interrupted by those of longer ones. They ascend by their heads.
double preemptive_seconds(const std::vector<Job>& jobs) {
  const auto is_less_urgent = [](const Job& a, const Job& b) { return a.tail < b.tail; };
  std::vector<Job> open;  // a heap, of what is left of each; the most urgent one runs
  double now = 0, end = 0;
  for (auto next = jobs.begin(); next != jobs.end() || !open.empty();) {
    if (open.empty()) now = std::max(now, next->head);
    for (; next != jobs.end() && next->head <= now; ++next) {
      open.push_back(*next);
      std::push_heap(open.begin(), open.end(), is_less_urgent);
    }
    Job& job = open.front();
    if (next != jobs.end() && next->head < now + job.seconds) {
      job.seconds -= next->head - now;
      now = next->head;
      continue;
    }
    now += job.seconds;
    end = std::max(end, now + job.tail);
    std::pop_heap(open.begin(), open.end(), is_less_urgent);
    open.pop_back();
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
  std::vector<std::pair<double, int>> heads;
  for (int n = 0; n < transfers.size(); ++n) {
    heads.emplace_back(paths.heads[dependences.node_of_transfer(n)], n);
  }
  std::sort(heads.begin(), heads.end());
  std::vector<std::vector<Job>> moved;  // by port
  for (const auto& [head, n] : heads) {
    const Transfer& transfer = transfers[n];
    const double tail = transfer.latency + paths.tails[dependences.node_of_transfer(n)];
    for (const int port : transfer.ports) {
      if (port >= static_cast<int>(moved.size())) moved.resize(port + 1);
      moved[port].push_back({head, transfer.seconds, tail});
    }
  }
  for (const std::vector<Job>& jobs : moved) least = std::max(least, preemptive_seconds(jobs));
  return least;
}

}  // namespace smex
