#include "partition/simulate/dependences.h"

#include <algorithm>

#include "ir/error.h"
#include "partition/lower/list_uses.h"

namespace smex {

/// Finds the pairs of nodes of which the second follows the first.
class Dependences::Links {
 public:
  Links(const Program& program, const Dependences& nodes, bool backward)
      : program_(program), nodes_(nodes), backward_(backward) {
    for (int w = 0; w < program.num_workers; ++w) {
      auto& makers = makers_.emplace_back(program.workers[w].num_slots, -1);
      int node = nodes.first_[w];
      for (const Instr& instr : program.workers[w].list(backward)) {
        for_each_made(instr, [&](Slot slot) { makers[slot] = node; });
        ++node;
      }
    }
  }

  void add_worker(int worker, bool in_order) {
    const std::vector<int>& makers = makers_[worker];
    int last = -1, node = nodes_.first_[worker] - 1;
    for (const Instr& instr : program_.workers[worker].list(backward_)) {
      ++node;
      for_each_read(instr, worker, [&](Slot slot) { follow(makers[slot], node); });
      if (!std::holds_alternative<ComputeInstr>(instr)) continue;
      if (nodes_.seconds_[node] == 0) continue;  // a view may come as late as what it reads
      if (in_order) follow(last, node);
      last = node;
    }
  }

  void add_transfers(const Transfers& transfers) {
    int node = nodes_.first_transfer_;
    for (const Transfer& transfer : transfers) {
      for (const auto& [worker, slot] : transfer.sources) follow(makers_[worker][slot], node);
      for (const auto& [worker, at] : transfer.readers) follow(node, nodes_.node_of(worker, at));
      ++node;
    }
  }

  const std::vector<std::pair<int, int>>& pairs() const { return pairs_; }

 private:
  void follow(int before, int after) {
    if (before >= 0) pairs_.emplace_back(before, after);  // else another list has made it
  }

  const Program& program_;
  const Dependences& nodes_;
  const bool backward_;
  std::vector<std::vector<int>> makers_;  ///< nodes by worker and slot
  std::vector<std::pair<int, int>> pairs_;
};

Dependences::Dependences(const Program& program, const InstrSeconds& seconds,
                         const Transfers& transfers, bool backward, bool in_order) {
  for (int w = 0; w < program.num_workers; ++w) {
    first_.push_back(static_cast<int>(seconds_.size()));
    const std::vector<double>& own = seconds[w][backward];
    seconds_.insert(seconds_.end(), own.begin(), own.end());
  }
  first_transfer_ = static_cast<int>(seconds_.size());
  for (const Transfer& transfer : transfers) {
    seconds_.push_back(transfer.seconds + transfer.latency);
  }
  Links links(program, *this, backward);
  for (int w = 0; w < program.num_workers; ++w) links.add_worker(w, in_order);
  links.add_transfers(transfers);
  followers_ = Grouped(size(), links.pairs());
  num_before_.assign(seconds_.size(), 0);
  for (const auto& [before, after] : links.pairs()) ++num_before_[after];
}

std::vector<int> Dependences::order() const {
  std::vector<int> left = num_before_;
  std::vector<int> order;
  order.reserve(left.size());
  for (int node = 0; node < size(); ++node) {
    if (left[node] == 0) order.push_back(node);
  }
  for (size_t next = 0; next < order.size(); ++next) {
    for (const int after : followers(order[next])) {
      if (--left[after] == 0) order.push_back(after);
    }
  }
  if (order.size() < seconds_.size()) {
    throw InternalError("simulate: instructions wait for each other in a circle");
  }
  return order;
}

Dependences::Paths Dependences::paths() const {
  const std::vector<int> order = this->order();
  Paths paths{std::vector<double>(seconds_.size(), 0), std::vector<double>(seconds_.size(), 0), 0};
  for (const int node : order) {
    const double end = paths.heads[node] + seconds_[node];
    for (const int after : followers(node)) paths.heads[after] = std::max(paths.heads[after], end);
  }
  for (auto node = order.rbegin(); node != order.rend(); ++node) {
    double& tail = paths.tails[*node];
    for (const int after : followers(*node)) {
      tail = std::max(tail, seconds_[after] + paths.tails[after]);
    }
    paths.longest = std::max(paths.longest, paths.heads[*node] + seconds_[*node] + tail);
  }
  return paths;
}

}  // namespace smex
