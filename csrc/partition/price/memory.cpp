#include "partition/price/memory.h"

#include <algorithm>
#include <numeric>

#include "partition/plan/dim_classes.h"
#include "partition/plan/grid.h"
#include "partition/plan/recomputation.h"

namespace smex {

namespace {

bool outlives_an_iteration(const Value& value) {
  return value.role == Role::kParameter || value.role == Role::kBuffer ||
         value.role == Role::kConstant;
}

}  // namespace

std::vector<Lifetime> lifetimes(const Graph& graph, const std::set<std::string>& views) {
  const auto count = static_cast<OpId>(graph.ops().size());
  const Recomputation recomputed = recomputation(graph);
  std::vector<Lifetime> lifetimes(graph.values().size());
  for (const Value& value : graph.values()) {
    Lifetime& lifetime = lifetimes[value.id];
    lifetime.first = std::max(value.producer, 0);
    lifetime.last = outlives_an_iteration(value) ? count - 1 : lifetime.first;
    lifetime.is_view = value.producer >= 0 && views.count(graph.op(value.producer).target) &&
                       !graph.op(value.producer).inputs.empty();
  }
  // What runs again reads what it makes at once; what outlives that is for backward calls.
  std::vector<bool> outlives(graph.values().size(), false);
  const auto read = [&](const Op& op, OpId when, bool backward) {
    for (ValueId input : op.inputs) {
      const bool second = backward && recomputed.remade[input];
      OpId& last = second ? lifetimes[input].until : lifetimes[input].last;
      last = std::max(last, when);
    }
  };
  for (const Op& op : graph.ops()) {
    for (int position : recomputed.before[op.id]) {
      const Op& again = graph.op(position);
      read(again, op.id, /*backward=*/true);
      for (ValueId output : again.outputs) {
        if (output == kNoValue || !recomputed.remade[output]) continue;
        lifetimes[output].again = lifetimes[output].until = op.id;
      }
    }
    read(op, op.id, op.backward);
    if (!op.backward) continue;
    for (ValueId input : op.inputs) outlives[input] = true;
  }
  for (const GraphOutput& output : graph.outputs()) {
    if (output.value != kNoValue) lifetimes[output.value].last = count - 1;
  }
  for (auto op = graph.ops().rbegin(); op != graph.ops().rend(); ++op) {
    for (ValueId output : op->outputs) {
      if (output == kNoValue || !lifetimes[output].is_view) continue;
      Lifetime &base = lifetimes[op->inputs.front()], &view = lifetimes[output];
      base.last = std::max(base.last, view.last);
      OpId& until = recomputed.remade[op->inputs.front()] ? base.until : base.last;
      until = std::max(until, view.until);
      if (outlives[output]) outlives[op->inputs.front()] = true;
    }
  }
  for (const Value& value : graph.values()) {
    Lifetime& lifetime = lifetimes[value.id];
    if (!outlives[value.id]) lifetime.again = Lifetime().again, lifetime.until = Lifetime().until;
  }
  return lifetimes;
}

std::vector<int64_t> live_bytes(const Graph& graph, const Plan& plan,
                                const std::set<std::string>& views) {
  const DimClasses classes(graph);
  const std::vector<Lifetime> lives = lifetimes(graph, views);
  std::vector<int64_t> bytes(graph.ops().size() + 1, 0);
  for (const Value& value : graph.values()) {
    if (lives[value.id].is_view) continue;
    const int64_t numel = largest_home_numel(value.shape, classes.granules(value.id),
                                             plan.values[value.id], plan.mesh);
    lives[value.id].add(numel * value.itemsize, bytes);
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  bytes.pop_back();
  return bytes;
}

int64_t peak_of_homes(const Graph& graph, const Plan& plan, const std::set<std::string>& views) {
  const std::vector<int64_t> live = live_bytes(graph, plan, views);
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

MemoryPoint heaviest_point(const Graph& graph, const Plan& plan,
                           const std::set<std::string>& views) {
  const std::vector<int64_t> live = live_bytes(graph, plan, views);
  const std::vector<Lifetime> lives = lifetimes(graph, views);
  const auto most = std::max_element(live.begin(), live.end());
  MemoryPoint point;
  if (most == live.end()) return point;
  point.op = static_cast<OpId>(most - live.begin());
  point.bytes = *most;
  for (const Value& value : graph.values()) {
    const Lifetime& life = lives[value.id];
    if (!life.is_view && life.holds(point.op)) {
      point.live.push_back(value.id);
    }
  }
  return point;
}

int64_t parameter_bytes(const Graph& graph, const Plan& plan) {
  const DimClasses classes(graph);
  int64_t bytes = 0;
  for (const Value& value : graph.values()) {
    if (value.role != Role::kParameter) continue;
    int64_t largest = 0;
    for (const Tile& tile : home_layout(graph, classes, plan, value.id).tiles) {
      if (tile.held) largest = std::max(largest, tile.region.numel());
    }
    bytes += largest * value.itemsize;
  }
  return bytes;
}

}  // namespace smex
