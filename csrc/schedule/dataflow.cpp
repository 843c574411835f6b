#include "schedule/dataflow.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>

#include "ir/error.h"

namespace smex::schedule {
namespace {

/// For each operator the others that an edge joins it with.
std::vector<std::vector<int32_t>> neighbours_of(const Dataflow& graph) {
  std::vector<std::vector<int32_t>> result(graph.size());
  for (const auto& [from, to] : graph.edges) {
    result[from].push_back(to);
    result[to].push_back(from);
  }
  return result;
}

/// Changes of a placement that can be taken back.
class Moves {
 public:
  Moves(const Dataflow& graph, std::vector<int32_t>& placement, uint64_t seed)
      : neighbours_(neighbours_of(graph)),
        placement_(placement),
        devices_(graph.devices),
        random_(seed) {}

  void change() {
    before_.clear();
    switch (below(4)) {
      case 0:
        set(any(), static_cast<int32_t>(below(devices_)));
        break;
      case 1:
        swap(any(), any());
        break;
      case 2:
        to_neighbour();
        break;
      default:
        with_others();
    }
  }

  void take_back() {
    for (size_t i = before_.size(); i-- > 0;) placement_[before_[i].first] = before_[i].second;
  }

  bool has_changed() const {
    return std::any_of(before_.begin(), before_.end(), [&](const auto& change) {
      return placement_[change.first] != change.second;
    });
  }

  double unit() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

 private:
  size_t below(size_t n) { return random_() % n; }
  int32_t any() { return static_cast<int32_t>(below(placement_.size())); }

  void set(int32_t op, int32_t device) {
    before_.emplace_back(op, placement_[op]);
    placement_[op] = device;
  }

  void swap(int32_t a, int32_t b) {
    const int32_t device = placement_[a];
    set(a, placement_[b]);
    set(b, device);
  }

  void to_neighbour() {
    const int32_t op = any();
    const auto& others = neighbours_[op];
    if (others.empty()) return set(op, static_cast<int32_t>(below(devices_)));
    set(op, placement_[others[below(others.size())]]);
  }

  /// Some operators of one device that lie together go to another.
  void with_others() {
    constexpr size_t kMost = 12;
    const int32_t first = any(), from = placement_[first];
    const auto to = static_cast<int32_t>(below(devices_));
    const size_t wanted = 2 + below(kMost);
    set(first, to);
    for (size_t i = 0; i < before_.size() && before_.size() < wanted; ++i) {
      for (const int32_t other : neighbours_[before_[i].first]) {
        if (placement_[other] == from && before_.size() < wanted && below(3) != 0) set(other, to);
      }
    }
  }

  const std::vector<std::vector<int32_t>> neighbours_;
  std::vector<int32_t>& placement_;
  const size_t devices_;
  std::mt19937_64 random_;
  std::vector<std::pair<int32_t, int32_t>> before_;  // operators and their devices
};

void check_placement(const Dataflow& graph, std::span<const int32_t> placement) {
  if (placement.size() != static_cast<size_t>(graph.size())) {
    throw UserError("placement: expected a device for each of the " + std::to_string(graph.size()) +
                    " operators, found " + std::to_string(placement.size()));
  }
  for (const int32_t device : placement) {
    if (device >= 0 && device < graph.devices) continue;
    throw UserError("placement: expected devices below " + std::to_string(graph.devices) +
                    ", found " + std::to_string(device));
  }
}

}  // namespace

void check(const Dataflow& graph) {
  const int32_t size = graph.size();
  const auto fail = [](const std::string& what) { throw UserError("dataflow: " + what); };
  if (graph.devices < 1) fail("expected a device or more, found " + std::to_string(graph.devices));
  if (graph.transfer.size() != graph.compute.size()) {
    fail("expected a time to move each of the " + std::to_string(size) + " results, found " +
         std::to_string(graph.transfer.size()));
  }
  for (const auto* times : {&graph.compute, &graph.transfer}) {
    for (const double seconds : *times) {
      if (std::isfinite(seconds) && seconds >= 0) continue;
      fail("expected seconds of at least 0, found " + std::to_string(seconds));
    }
  }
  std::vector<int32_t> before(size, 0);
  std::vector<std::vector<int32_t>> after(size);
  for (const auto& [from, to] : graph.edges) {
    for (const int32_t end : {from, to}) {
      if (end >= 0 && end < size) continue;
      fail("expected edges of operators below " + std::to_string(size) + ", found " +
           std::to_string(end));
    }
    ++before[to];
    after[from].push_back(to);
  }
  std::vector<int32_t> ready;
  for (int32_t op = 0; op < size; ++op) {
    if (before[op] == 0) ready.push_back(op);
  }
  for (size_t i = 0; i < ready.size(); ++i) {
    for (const int32_t next : after[ready[i]]) {
      if (--before[next] == 0) ready.push_back(next);
    }
  }
  if (ready.size() == static_cast<size_t>(size)) return;
  const auto waiting = std::find_if(before.begin(), before.end(), [](int32_t n) { return n > 0; });
  fail("operator " + std::to_string(waiting - before.begin()) + " waits for itself, or for a ring");
}

DataflowRun::DataflowRun(const Dataflow& graph)
    : graph_(graph),
      after_begin_(graph.size() + 1, 0),
      after_(graph.edges.size()),
      num_before_(graph.size(), 0),
      queues_(graph.devices),
      heads_(graph.devices) {
  for (const auto& [from, to] : graph.edges) {
    ++after_begin_[from + 1];
    ++num_before_[to];
  }
  std::partial_sum(after_begin_.begin(), after_begin_.end(), after_begin_.begin());
  std::vector<int64_t> at = after_begin_;
  for (const auto& [from, to] : graph.edges) after_[at[from]++] = to;
}

// What is posted without delay happens after all that was posted before for this time.
void DataflowRun::post(double delay, Kind kind, int32_t item) {
  if (delay == 0) {
    now_events_.push_back({kind, item});
    return;
  }
  later_.push_back({now_ + delay, posted_++, {kind, item}});
  std::push_heap(later_.begin(), later_.end(), std::greater<>());
}

void DataflowRun::serve(int32_t device) {
  if (heads_[device] == queues_[device].size() || busy_[device]) return;
  busy_[device] = true;
  post(0, Kind::kGranted, queues_[device][heads_[device]++]);
}

void DataflowRun::happen(const Event& event, std::span<const int32_t> placement) {
  const int32_t item = event.item;
  switch (event.kind) {
    case Kind::kReady:
      queues_[placement[item]].push_back(item);
      serve(placement[item]);
      break;
    case Kind::kGranted:
      post(graph_.compute[item], Kind::kComputed, item);
      break;
    case Kind::kComputed:
      busy_[placement[item]] = false;
      post(0, Kind::kReleased, placement[item]);
      post(0, Kind::kFinished, item);
      break;
    case Kind::kReleased:
      serve(item);
      break;
    case Kind::kFinished:
      for (int64_t i = after_begin_[item]; i < after_begin_[item + 1]; ++i) {
        const int32_t reader = after_[i];
        post(placement[item] != placement[reader] ? graph_.transfer[item] : 0, Kind::kSent, reader);
      }
      break;
    case Kind::kSent:
      post(0, Kind::kArrived, item);
      break;
    case Kind::kArrived:
      if (--missing_[item] == 0) post(0, Kind::kReady, item);
      break;
  }
}

double DataflowRun::makespan(std::span<const int32_t> placement) {
  missing_ = num_before_;
  for (auto& queue : queues_) queue.clear();
  std::fill(heads_.begin(), heads_.end(), 0);
  busy_.assign(graph_.devices, false);
  now_events_.clear();
  later_.clear();
  now_ = 0;
  posted_ = 0;
  for (int32_t op = 0; op < graph_.size(); ++op) {
    if (missing_[op] == 0) post(0, Kind::kReady, op);
  }
  for (;;) {
    for (size_t i = 0; i < now_events_.size(); ++i) {
      const Event event = now_events_[i];  // more may be added
      happen(event, placement);
    }
    now_events_.clear();
    if (later_.empty()) return now_;
    now_ = later_.front().at;
    while (!later_.empty() && later_.front().at == now_) {
      std::pop_heap(later_.begin(), later_.end(), std::greater<>());
      now_events_.push_back(later_.back().event);
      later_.pop_back();
    }
  }
}

double makespan_of(const Dataflow& graph, std::span<const int32_t> placement) {
  check_placement(graph, placement);
  return DataflowRun(graph).makespan(placement);
}

Placement anneal(const Dataflow& graph, std::vector<int32_t> start, int64_t calls, uint64_t seed,
                 const std::function<bool(int64_t, double)>& progress) {
  check(graph);
  check_placement(graph, start);
  constexpr double kWarm = 0.02, kCold = 0.0002;  // of the makespan
  constexpr int64_t kCycles = 8, kTold = 4096;
  DataflowRun run(graph);
  std::vector<int32_t> placement = std::move(start);
  double now = run.makespan(placement);
  Placement best{placement, now, 1};
  if (graph.size() == 0 || graph.devices == 1) return best;
  Moves moves(graph, placement, seed);
  const int64_t cycle = std::max<int64_t>(1, calls / kCycles);
  double temperature = kWarm;
  const double cooling = std::pow(kCold / kWarm, 1 / static_cast<double>(cycle));
  for (int64_t call = 1; call < calls; ++call, temperature *= cooling) {
    if (call % cycle == 0) {  // warm again
      temperature = kWarm;
      placement = best.devices;
      now = best.makespan;
    }
    if (progress && call % kTold == 0 && !progress(call, best.makespan)) break;
    moves.change();
    if (!moves.has_changed()) {
      moves.take_back();
      continue;
    }
    const double next = run.makespan(placement);
    best.calls = call + 1;
    const double worse = (next - now) / (temperature * best.makespan);
    if (worse > 0 && moves.unit() >= std::exp(-worse)) {
      moves.take_back();
      continue;
    }
    now = next;
    if (now < best.makespan) {
      best.devices = placement;
      best.makespan = now;
    }
  }
  return best;
}

}  // namespace smex::schedule
