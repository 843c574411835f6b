#include "partition/search/home_memory.h"

namespace smex {

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
    lifetimes_[value.id].add(bytes, change);
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
    if (bytes.empty() || !life.holds(point)) continue;
    std::vector<double>& weights = limit.weights[groups_[value.id]];
    weights.resize(bytes.size(), 0);
    for (size_t choice = 0; choice < bytes.size(); ++choice) weights[choice] += bytes[choice];
  }
  return limit;
}

}  // namespace smex
