#include "partition/simulate/ports.h"

#include <algorithm>

namespace smex {

Ports::Ports(const Program& program, const InstrSeconds& seconds, std::vector<Transfer> transfers,
             int num_processes, bool backward)
    : transfers_(std::move(transfers)),
      states_(transfers_.size()),
      of_slot_(program.num_workers),
      of_fetch_(program.num_workers),
      ports_(num_processes) {
  for (int number = 0; number < static_cast<int>(transfers_.size()); ++number) {
    const Transfer& transfer = transfers_[number];
    states_[number].missing = transfer.sources.size();
    for (const auto& [worker, slot] : transfer.sources) of_slot_[worker][slot].push_back(number);
    for (const auto& [worker, at] : transfer.readers) of_fetch_[worker][at].push_back(number);
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

void Ports::written(int worker, Slot slot, double time) {
  const auto found = of_slot_[worker].find(slot);
  if (found == of_slot_[worker].end()) return;
  for (const int number : found->second) {
    State& state = states_[number];
    state.ready = std::max(state.ready, time);
    if (--state.missing == 0) {
      ports_[transfers_[number].message.to].later.emplace(state.ready, number);
    }
  }
}

double Ports::Port::next() const {
  if (!ready.empty()) return free;
  return later.empty() ? kNever : std::max(free, later.top().first);
}

double Ports::next() const {
  double soonest = kNever;
  for (const Port& port : ports_) soonest = std::min(soonest, port.next());
  return soonest;
}

void Ports::begin_next() {
  Port& port = *std::min_element(ports_.begin(), ports_.end(),
                                 [](const Port& a, const Port& b) { return a.next() < b.next(); });
  const double now = port.next();
  for (; !port.later.empty() && port.later.top().first <= now; port.later.pop()) {
    const int number = port.later.top().second;
    port.ready.emplace(states_[number].needed, transfers_[number].message.relayout, number);
  }
  const int number = std::get<2>(*port.ready.begin());
  const Transfer& chosen = transfers_[number];
  port.ready.erase(port.ready.begin());
  port.free = now + chosen.seconds;
  port.transferred += chosen.seconds;
  states_[number].arrives = port.free + chosen.latency;
  messages_.push_back(chosen.message);
}

Ports::Brought Ports::brought(int worker, int position) const {
  Brought all;
  const auto found = of_fetch_[worker].find(position);
  if (found == of_fetch_[worker].end()) return all;
  for (const int number : found->second) {
    const Transfer& transfer = transfers_[number];
    const auto readers = static_cast<double>(transfer.readers.size());
    all.arrives = std::max(all.arrives, states_[number].arrives);
    all.on_its_way += transfer.seconds / readers;
    all.charged += transfer.charged / readers;
  }
  return all;
}

}  // namespace smex
