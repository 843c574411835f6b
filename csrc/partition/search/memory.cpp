#include "partition/search/memory.h"

#include <algorithm>
#include <numeric>

#include "partition/plan/dim_classes.h"
#include "partition/plan/grid.h"

namespace smex {

namespace {

bool outlives_an_iteration(const Value& value) {
  return value.role == Role::kParameter || value.role == Role::kBuffer ||
         value.role == Role::kConstant;
}

}  // namespace

std::vector<Lifetime> lifetimes(const Graph& graph, const std::set<std::string>& views) {
  const auto count = static_cast<OpId>(graph.ops().size());
  std::vector<Lifetime> lifetimes(graph.values().size());
  for (const Value& value : graph.values()) {
    Lifetime& lifetime = lifetimes[value.id];
    lifetime.first = std::max(value.producer, 0);
    lifetime.last = outlives_an_iteration(value) ? count - 1 : lifetime.first;
    lifetime.is_view = value.producer >= 0 && views.count(graph.op(value.producer).target) &&
                       !graph.op(value.producer).inputs.empty();
  }
  for (const Op& op : graph.ops()) {
    for (ValueId input : op.inputs) {
      lifetimes[input].last = std::max(lifetimes[input].last, op.id);
    }
  }
  for (const GraphOutput& output : graph.outputs()) {
    if (output.value != kNoValue) lifetimes[output.value].last = count - 1;
  }
  for (auto op = graph.ops().rbegin(); op != graph.ops().rend(); ++op) {
    for (ValueId output : op->outputs) {
      if (output == kNoValue || !lifetimes[output].is_view) continue;
      OpId& last = lifetimes[op->inputs.front()].last;
      last = std::max(last, lifetimes[output].last);
    }
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
    const Grid home =
        home_grid(value.shape, classes.granules(value.id), plan.values[value.id], plan.mesh);
    const int64_t tile = largest_numel(home) * value.itemsize;
    bytes[lives[value.id].first] += tile;
    bytes[lives[value.id].last + 1] -= tile;
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  bytes.pop_back();
  return bytes;
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
    if (!life.is_view && life.first <= point.op && point.op <= life.last) {
      point.live.push_back(value.id);
    }
  }
  return point;
}

HomeMemory::HomeMemory(const Graph& graph, const std::set<std::string>& views,
                       double optimizer_states, double limit)
    : graph_(graph),
      lifetimes_(lifetimes(graph, views)),
      optimizer_states_(optimizer_states),
      limit_(limit),
      groups_(graph.values().size(), -1),
      bytes_(graph.values().size()) {}

void HomeMemory::add(ValueId id, int group, std::vector<double> bytes) {
  if (graph_.value(id).role == Role::kParameter) {
    for (double& all : bytes) all *= 1 + optimizer_states_;
  }
  groups_[id] = group;
  bytes_[id] = std::move(bytes);
}

std::optional<Limit> HomeMemory::worst(const std::vector<int>& choices) const {
  std::vector<double> change(graph_.ops().size() + 1, 0);
  for (const Value& value : graph_.values()) {
    if (bytes_[value.id].empty()) continue;
    const double bytes = bytes_[value.id][choices[groups_[value.id]]];
    change[lifetimes_[value.id].first] += bytes;
    change[lifetimes_[value.id].last + 1] -= bytes;
  }
  double live = 0, most = limit_;
  OpId point = -1;
  for (const Op& op : graph_.ops()) {
    live += change[op.id];
    if (live <= most) continue;
    most = live;
    point = op.id;
  }
  if (point < 0) return std::nullopt;
  Limit limit{{}, limit_};
  for (const Value& value : graph_.values()) {
    const Lifetime& life = lifetimes_[value.id];
    const std::vector<double>& bytes = bytes_[value.id];
    if (bytes.empty() || life.first > point || life.last < point) continue;
    std::vector<double>& weights = limit.weights[groups_[value.id]];
    weights.resize(bytes.size(), 0);
    for (size_t choice = 0; choice < bytes.size(); ++choice) weights[choice] += bytes[choice];
  }
  return limit;
}

}  // namespace smex
