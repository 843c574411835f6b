#include "partition/simulate/ports.h"

#include <algorithm>
#include <map>

namespace smex {

Ports::Ports(const Program& program, const InstrSeconds& seconds, std::vector<Transfer> transfers,
             int num_processes, bool backward)
    : transfers_(std::move(transfers)),
      states_(transfers_.size()),
      transferred_(num_processes, 0),
      backward_(backward) {
  for (const WorkerProgram& worker : program.workers) {
    of_slot_.emplace_back(worker.num_slots);
    fetch_at_.emplace_back(worker.list(backward).size(), -1);
  }
  std::map<std::vector<int>, int> lanes;
  for (int number = 0; number < static_cast<int>(transfers_.size()); ++number) {
    const Transfer& transfer = transfers_[number];
    states_[number].missing = transfer.sources.size();
    for (const auto& [worker, slot] : transfer.sources) of_slot_[worker][slot].push_back(number);
    add_readers(number);
    const auto [lane, fresh] = lanes.try_emplace(transfer.ports, static_cast<int>(lanes_.size()));
    if (fresh) lanes_.emplace_back().ports = transfer.ports;
    lane_of_.push_back(lane->second);
    const int last = *std::max_element(transfer.ports.begin(), transfer.ports.end());
    free_.resize(std::max<size_t>(free_.size(), last + 1), 0);
    last_.resize(free_.size(), -1);
  }
  find_needed(program, seconds, backward);
}

void Ports::add_readers(int number) {
  const Transfer& transfer = transfers_[number];
  const auto readers = static_cast<double>(transfer.readers.size());
  for (const auto& [worker, at] : transfer.readers) {
    int& fetch = fetch_at_[worker][at];
    if (fetch < 0) {
      fetch = static_cast<int>(fetches_.size());
      fetches_.emplace_back().brought.arrives = kNever;
    }
    ++fetches_[fetch].coming;
    fetches_[fetch].brought.on_its_way += transfer.seconds / readers;
    fetches_[fetch].brought.charged += transfer.charged / readers;
  }
}

void Ports::find_needed(const Program& program, const InstrSeconds& seconds, bool backward) {
  std::vector<std::vector<double>> begins;  // of an instruction, where nothing is waited for
  for (int w = 0; w < program.num_workers; ++w) {
    auto& own = begins.emplace_back(1, 0);
    for (const double one : seconds[w][backward]) own.push_back(own.back() + one);
  }
  for (size_t number = 0; number < transfers_.size(); ++number) {
    for (const auto& [worker, at] : transfers_[number].readers) {
      const Instr& reader = program.workers[worker].list(backward)[at];
      double& needed = states_[number].needed;
      needed = std::min(needed, begins[worker][std::max(due_of(reader), at)]);
    }
  }
}

void Ports::written(int worker, Slot slot, double time, const Cause& by) {
  for (const int number : of_slot_[worker][slot]) {
    State& state = states_[number];
    if (time >= state.ready) state.made_by = by;
    state.ready = std::max(state.ready, time);
    if (--state.missing == 0) {
      lanes_[lane_of_[number]].later.emplace(state.ready, number);
      next_.reset();
    }
  }
}

double Ports::next(const Lane& lane) const {
  if (lane.ready.empty() && lane.later.empty()) return kNever;
  double soonest = lane.ready.empty() ? lane.later.top().first : lane.since;
  for (const int port : lane.ports) soonest = std::max(soonest, free_[port]);
  return soonest;
}

double Ports::next() {
  if (next_) return *next_;
  double soonest = kNever;
  for (const Lane& lane : lanes_) soonest = std::min(soonest, next(lane));
  next_ = soonest;
  return soonest;
}

const std::vector<std::pair<int, int>>& Ports::begin_next() {
  const double now = next();
  next_.reset();
  Lane* chosen = nullptr;
  for (Lane& lane : lanes_) {
    if (next(lane) > now) continue;
    lane.since = now;
    for (; !lane.later.empty() && lane.later.top().first <= now; lane.later.pop()) {
      const int number = lane.later.top().second;
      lane.ready.emplace(states_[number].needed, transfers_[number].message.relayout, number);
    }
    if (!chosen || *lane.ready.begin() < *chosen->ready.begin()) chosen = &lane;
  }
  const int number = std::get<2>(*chosen->ready.begin());
  const Transfer& transfer = transfers_[number];
  chosen->ready.erase(chosen->ready.begin());
  State& state = states_[number];
  const double end = now + transfer.seconds;
  MessageSpan span{backward_,      transfer.message, now, end, end + transfer.latency,
                   transfer.bytes, state.made_by};
  state.span = static_cast<int>(spans_.size());
  for (const int port : chosen->ports) {
    if (free_[port] == now && now > state.ready) {
      span.cause = {Cause::Kind::kMessage, transfer.message.to, last_[port]};
    }
    free_[port] = end;
    last_[port] = state.span;
  }
  transferred_[transfer.message.to] += transfer.seconds;
  state.arrives = span.arrives;
  for (const auto& [worker, at] : transfer.readers) {
    Fetch& fetch = fetches_[fetch_at_[worker][at]];
    if (state.arrives >= fetch.latest) fetch.brought.last = state.span;
    fetch.latest = std::max(fetch.latest, state.arrives);
    if (--fetch.coming == 0) fetch.brought.arrives = fetch.latest;
  }
  spans_.push_back(std::move(span));
  return transfer.readers;
}

}  // namespace smex
