#include "partition/simulate/bound.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <utility>

#include "ir/error.h"

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

/// Instructions and transfers of a list, and which follow which.
class Dependences {
 public:
  Dependences(const Program& program, const InstrSeconds& seconds,
              const std::vector<Transfer>& transfers, bool backward)
      : program_(program), transfers_(transfers), backward_(backward) {
    for (int w = 0; w < program.num_workers; ++w) {
      first_.push_back(static_cast<int>(seconds_.size()));
      const std::vector<double>& own = seconds[w][backward];
      seconds_.insert(seconds_.end(), own.begin(), own.end());
    }
    first_transfer_ = static_cast<int>(seconds_.size());
    for (const Transfer& transfer : transfers) {
      seconds_.push_back(transfer.seconds + transfer.latency);
    }
    followers_.resize(seconds_.size());
    num_before_.assign(seconds_.size(), 0);
    for (int w = 0; w < program.num_workers; ++w) find_makers(w);
    for (int w = 0; w < program.num_workers; ++w) link_worker(w);
    link_transfers();
    find_paths();
  }

  /// Of the longest chain.
  double longest() const {
    double longest = 0;
    for (size_t n = 0; n < seconds_.size(); ++n) {
      longest = std::max(longest, heads_[n] + seconds_[n] + tails_[n]);
    }
    return longest;
  }

  Job job_of(int transfer) const {
    const int node = first_transfer_ + transfer;
    return {heads_[node], transfers_[transfer].seconds,
            transfers_[transfer].latency + tails_[node]};
  }

 private:
  void find_makers(int worker) {
    auto& makers = makers_.emplace_back(program_.workers[worker].num_slots, -1);
    const std::vector<Instr>& list = program_.workers[worker].list(backward_);
    for (size_t n = 0; n < list.size(); ++n) {
      for_each_made(list[n],
                    [&](Slot slot) { makers[slot] = first_[worker] + static_cast<int>(n); });
    }
  }

  void follow(int before, int after) {
    if (before < 0) return;  // another list has made it
    followers_[before].push_back(after);
    ++num_before_[after];
  }

  void link_worker(int worker) {
    const std::vector<Instr>& list = program_.workers[worker].list(backward_);
    int last = -1;
    for (size_t n = 0; n < list.size(); ++n) {
      const int node = first_[worker] + static_cast<int>(n);
      if (const auto* fetch = std::get_if<FetchInstr>(&list[n])) {
        for (const CopyPart& part : fetch->parts) {
          if (part.worker == worker) follow(makers_[worker][part.slot], node);
        }
      } else if (const auto* compute = std::get_if<ComputeInstr>(&list[n])) {
        for (const ValueId slot : tensor_operands(compute->args)) {
          follow(makers_[worker][slot], node);
        }
        if (seconds_[node] == 0) continue;  // a view, which may come as late as what it reads
        follow(last, node);
        last = node;
      }
    }
  }

  void link_transfers() {
    for (size_t n = 0; n < transfers_.size(); ++n) {
      const int node = first_transfer_ + static_cast<int>(n);
      for (const auto& [worker, slot] : transfers_[n].sources) {
        follow(makers_[worker][slot], node);
      }
      for (const auto& [worker, at] : transfers_[n].readers) follow(node, first_[worker] + at);
    }
  }

  void find_paths() {
    heads_.assign(seconds_.size(), 0);
    tails_.assign(seconds_.size(), 0);
    std::vector<int> order;
    for (size_t n = 0; n < seconds_.size(); ++n) {
      if (num_before_[n] == 0) order.push_back(static_cast<int>(n));
    }
    for (size_t next = 0; next < order.size(); ++next) {
      const int node = order[next];
      for (const int after : followers_[node]) {
        heads_[after] = std::max(heads_[after], heads_[node] + seconds_[node]);
        if (--num_before_[after] == 0) order.push_back(after);
      }
    }
    if (order.size() < seconds_.size()) {
      throw InternalError("simulate: instructions wait for each other in a circle");
    }
    for (auto node = order.rbegin(); node != order.rend(); ++node) {
      for (const int after : followers_[*node]) {
        tails_[*node] = std::max(tails_[*node], seconds_[after] + tails_[after]);
      }
    }
  }

  const Program& program_;
  const std::vector<Transfer>& transfers_;
  const bool backward_;
  std::vector<int> first_;  ///< node of each worker's first instruction; transfers follow
  int first_transfer_ = 0;
  std::vector<double> seconds_;  ///< by node
  std::vector<std::vector<int>> followers_;
  std::vector<int> num_before_;
  std::vector<std::vector<int>> makers_;  ///< nodes by worker and slot
  std::vector<double> heads_, tails_;
};

}  // namespace

double least_seconds(const Program& program, const InstrSeconds& seconds,
                     const std::vector<Transfer>& transfers, bool backward) {
  const Dependences dependences(program, seconds, transfers, backward);
  double least = dependences.longest();
  for (const auto& lists : seconds) {
    least = std::max(least, std::accumulate(lists[backward].begin(), lists[backward].end(), 0.0));
  }
  std::map<int, std::vector<Job>> moved;  // by port
  for (size_t n = 0; n < transfers.size(); ++n) {
    for (const int port : transfers[n].ports) {
      moved[port].push_back(dependences.job_of(static_cast<int>(n)));
    }
  }
  for (auto& [port, jobs] : moved) {
    least = std::max(least, preemptive_seconds(std::move(jobs)));
  }
  return least;
}

}  // namespace smex
