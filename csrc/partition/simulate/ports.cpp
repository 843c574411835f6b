#include "partition/simulate/ports.h"

#include <algorithm>
#include <map>

namespace smex {

Ports::Ports(const Program& program, const InstrSeconds& seconds, const Transfers& transfers,
             int num_processes, bool backward)
    : transfers_(transfers),
      states_(transfers.size()),
      transferred_(num_processes, 0),
      backward_(backward) {
  spans_.reserve(transfers.size());
  find_slots(program);
  find_fetches(program);
  find_lanes();
  find_needed(program, seconds);
}

void Ports::find_slots(const Program& program) {
  int slots = 0;
  for (const WorkerProgram& worker : program.workers) {
    first_slot_.push_back(slots);
    slots += worker.num_slots;
  }
  std::vector<std::pair<int, int>> sources;
  for (int number = 0; number < transfers_.size(); ++number) {
    states_[number].missing = static_cast<int>(transfers_[number].sources.size());
    for (const auto& [worker, slot] : transfers_[number].sources) {
      sources.emplace_back(first_slot_[worker] + slot, number);
    }
  }
  of_slot_ = Grouped(slots, sources);
}

void Ports::find_fetches(const Program& program) {
  for (const WorkerProgram& worker : program.workers) {
    first_instr_.push_back(static_cast<int>(fetch_at_.size()));
    fetch_at_.resize(fetch_at_.size() + worker.list(backward_).size(), -1);
  }
  for (const Transfer& transfer : transfers_) {
    const auto readers = static_cast<double>(transfer.readers.size());
    for (const auto& [worker, at] : transfer.readers) {
      int& fetch = fetch_at_[first_instr_[worker] + at];
      if (fetch < 0) {
        fetch = static_cast<int>(fetches_.size());
        fetches_.emplace_back().brought.arrives = kNever;
      }
      ++fetches_[fetch].coming;
      fetches_[fetch].brought.on_its_way += transfer.seconds / readers;
      fetches_[fetch].brought.charged += transfer.charged / readers;
    }
  }
}

void Ports::find_lanes() {
  std::map<OccupiedPorts, int> lanes;
  lane_of_.reserve(transfers_.size());
  int num_ports = 0;
  for (const Transfer& transfer : transfers_) {
    const auto [lane, fresh] = lanes.try_emplace(transfer.ports, static_cast<int>(lanes_.size()));
    if (fresh) lanes_.emplace_back().ports = transfer.ports;
    lane_of_.push_back(lane->second);
    for (const int port : transfer.ports) num_ports = std::max(num_ports, port + 1);
  }
  free_.resize(num_ports, 0);
  last_.resize(num_ports, -1);
  next_of_.resize(lanes_.size(), kNever);
  lanes_of_.resize(num_ports);
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    for (const int port : lanes_[lane].ports) lanes_of_[port].push_back(static_cast<int>(lane));
  }
}

void Ports::find_needed(const Program& program, const InstrSeconds& seconds) {
  std::vector<std::vector<double>> begins;  // of an instruction, where nothing is waited for
  for (int w = 0; w < program.num_workers; ++w) {
    const std::vector<double>& took = seconds[w][backward_];
    auto& own = begins.emplace_back(1, 0);
    own.reserve(took.size() + 1);
    for (const double one : took) own.push_back(own.back() + one);
  }
  for (int number = 0; number < transfers_.size(); ++number) {
    for (const auto& [worker, at] : transfers_[number].readers) {
      const Instr& reader = program.workers[worker].list(backward_)[at];
      double& needed = states_[number].needed;
      needed = std::min(needed, begins[worker][std::max(due_of(reader), at)]);
    }
  }
}

void Ports::written(int worker, Slot slot, double time, const Cause& by) {
  for (const int number : of_slot_.of(first_slot_[worker] + slot)) {
    State& state = states_[number];
    if (time >= state.ready) state.made_by = by;
    state.ready = std::max(state.ready, time);
    if (--state.missing == 0) {
      const int lane = lane_of_[number];
      lanes_[lane].later.emplace(state.ready, number);
      look_at(lane);
      next_ = std::min(next_, next_of_[lane]);
    }
  }
}

void Ports::look_at(int which) {
  const Lane& lane = lanes_[which];
  double& next = next_of_[which];
  next = kNever;
  if (lane.ready.empty() && lane.later.empty()) return;
  next = lane.ready.empty() ? lane.later.top().first : lane.since;
  for (const int port : lane.ports) next = std::max(next, free_[port]);
}

std::span<const std::pair<int, int>> Ports::begin_next() {
  const double now = next_;
  Lane* chosen = nullptr;
  for (size_t which = 0; which < lanes_.size(); ++which) {
    if (next_of_[which] > now) continue;
    Lane& lane = lanes_[which];
    lane.since = now;
    for (; !lane.later.empty() && lane.later.top().first <= now; lane.later.pop()) {
      const int number = lane.later.top().second;
      lane.ready.emplace(states_[number].needed, transfers_[number].message.relayout, number);
    }
    if (!chosen || lane.ready.top() < chosen->ready.top()) chosen = &lane;
  }
  const int number = std::get<2>(chosen->ready.top());
  const Transfer& transfer = transfers_[number];
  chosen->ready.pop();
  const State& state = states_[number];
  const double end = now + transfer.seconds;
  MessageSpan span{backward_,      transfer.message, now, end, end + transfer.latency,
                   transfer.bytes, state.made_by};
  const int which = static_cast<int>(spans_.size());
  for (const int port : chosen->ports) {
    if (free_[port] == now && now > state.ready) {
      span.cause = {Cause::Kind::kMessage, transfer.message.to, last_[port]};
    }
    free_[port] = end;
    last_[port] = which;
    for (const int lane : lanes_of_[port]) look_at(lane);
  }
  next_ = *std::min_element(next_of_.begin(), next_of_.end());
  transferred_[transfer.message.to] += transfer.seconds;
  for (const auto& [worker, at] : transfer.readers) {
    Fetch& fetch = fetches_[fetch_at_[first_instr_[worker] + at]];
    if (span.arrives >= fetch.latest) fetch.brought.last = which;
    fetch.latest = std::max(fetch.latest, span.arrives);
    if (--fetch.coming == 0) fetch.brought.arrives = fetch.latest;
  }
  spans_.push_back(span);
  return transfer.readers;
}

}  // namespace smex
