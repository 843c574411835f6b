#include "partition/simulate/ports.h"

#include <algorithm>

namespace smex {

Ports::Ports(const Program& program, const InstrSeconds& seconds, std::vector<Transfer> transfers,
             int num_processes, bool backward)
    : transfers_(std::move(transfers)),
      states_(transfers_.size()),
      of_slot_(program.num_workers),
      of_fetch_(program.num_workers),
      transferred_(num_processes, 0),
      backward_(backward) {
  std::map<std::vector<int>, int> lanes;
  for (int number = 0; number < static_cast<int>(transfers_.size()); ++number) {
    const Transfer& transfer = transfers_[number];
    states_[number].missing = transfer.sources.size();
    for (const auto& [worker, slot] : transfer.sources) of_slot_[worker][slot].push_back(number);
    for (const auto& [worker, at] : transfer.readers) of_fetch_[worker][at].push_back(number);
    const auto [lane, fresh] = lanes.try_emplace(transfer.ports, static_cast<int>(lanes_.size()));
    if (fresh) lanes_.emplace_back().ports = transfer.ports;
    lane_of_.push_back(lane->second);
    const int last = *std::max_element(transfer.ports.begin(), transfer.ports.end());
    free_.resize(std::max<size_t>(free_.size(), last + 1), 0);
    last_.resize(free_.size(), -1);
  }
  find_needed(program, seconds, backward);
}

void Ports::find_needed(const Program& program, const InstrSeconds& seconds, bool backward) {
  for (int w = 0; w < program.num_workers; ++w) {
    const std::vector<Instr>& list = program.workers[w].list(backward);
    std::vector<double> begins{0};  // of an instruction, where nothing is waited for
    for (const double one : seconds[w][backward]) begins.push_back(begins.back() + one);
    for (const auto& [position, numbers] : of_fetch_[w]) {
      const double needed = begins[std::max(due_of(list[position]), position)];
      for (const int number : numbers) {
        states_[number].needed = std::min(states_[number].needed, needed);
      }
    }
  }
}

void Ports::written(int worker, Slot slot, double time, const Cause& by) {
  const auto found = of_slot_[worker].find(slot);
  if (found == of_slot_[worker].end()) return;
  for (const int number : found->second) {
    State& state = states_[number];
    if (time >= state.ready) state.made_by = by;
    state.ready = std::max(state.ready, time);
    if (--state.missing == 0) {
      lanes_[lane_of_[number]].later.emplace(state.ready, number);
    }
  }
}

double Ports::next(const Lane& lane) const {
  if (lane.ready.empty() && lane.later.empty()) return kNever;
  double soonest = lane.ready.empty() ? lane.later.top().first : lane.since;
  for (const int port : lane.ports) soonest = std::max(soonest, free_[port]);
  return soonest;
}

double Ports::next() const {
  double soonest = kNever;
  for (const Lane& lane : lanes_) soonest = std::min(soonest, next(lane));
  return soonest;
}

void Ports::begin_next() {
  const double now = next();
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
  spans_.push_back(std::move(span));
}

Ports::Brought Ports::brought(int worker, int position) const {
  Brought all;
  const auto found = of_fetch_[worker].find(position);
  if (found == of_fetch_[worker].end()) return all;
  for (const int number : found->second) {
    const Transfer& transfer = transfers_[number];
    const auto readers = static_cast<double>(transfer.readers.size());
    if (states_[number].arrives >= all.arrives) all.last = states_[number].span;
    all.arrives = std::max(all.arrives, states_[number].arrives);
    all.on_its_way += transfer.seconds / readers;
    all.charged += transfer.charged / readers;
  }
  return all;
}

}  // namespace smex
