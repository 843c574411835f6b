#include "partition/simulate/dependences.h"

#include <algorithm>

#include "ir/error.h"

namespace smex {

Dependences::Dependences(const Program& program, const InstrSeconds& seconds,
                         const std::vector<Transfer>& transfers, bool backward, bool in_order)
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
  for (int w = 0; w < program.num_workers; ++w) link_worker(w, in_order);
  link_transfers();
}

void Dependences::find_makers(int worker) {
  auto& makers = makers_.emplace_back(program_.workers[worker].num_slots, -1);
  const std::vector<Instr>& list = program_.workers[worker].list(backward_);
  for (size_t n = 0; n < list.size(); ++n) {
    for_each_made(list[n], [&](Slot slot) { makers[slot] = first_[worker] + static_cast<int>(n); });
  }
}

void Dependences::follow(int before, int after) {
  if (before < 0) return;  // another list has made it
  followers_[before].push_back(after);
  ++num_before_[after];
}

void Dependences::link_worker(int worker, bool in_order) {
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
      if (in_order) follow(last, node);
      last = node;
    }
  }
}

void Dependences::link_transfers() {
  for (size_t n = 0; n < transfers_.size(); ++n) {
    const int node = first_transfer_ + static_cast<int>(n);
    for (const auto& [worker, slot] : transfers_[n].sources) follow(makers_[worker][slot], node);
    for (const auto& [worker, at] : transfers_[n].readers) follow(node, first_[worker] + at);
  }
}

std::vector<int> Dependences::order() const {
  std::vector<int> left = num_before_;
  std::vector<int> order;
  for (int node = 0; node < size(); ++node) {
    if (left[node] == 0) order.push_back(node);
  }
  for (size_t next = 0; next < order.size(); ++next) {
    for (const int after : followers_[order[next]]) {
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
    for (const int after : followers_[node]) {
      paths.heads[after] = std::max(paths.heads[after], paths.heads[node] + seconds_[node]);
    }
  }
  for (auto node = order.rbegin(); node != order.rend(); ++node) {
    for (const int after : followers_[*node]) {
      paths.tails[*node] = std::max(paths.tails[*node], seconds_[after] + paths.tails[after]);
    }
  }
  for (size_t node = 0; node < seconds_.size(); ++node) {
    paths.longest = std::max(paths.longest, paths.heads[node] + seconds_[node] + paths.tails[node]);
  }
  return paths;
}

}  // namespace smex
