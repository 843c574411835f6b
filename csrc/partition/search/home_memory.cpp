#include "partition/search/home_memory.h"

#include <algorithm>
#include <functional>

namespace smex {

HomeMemory::HomeMemory(const Graph& graph, const std::set<std::string>& views,
                       double optimizer_states)
    : graph_(graph),
      lifetimes_(lifetimes(graph, views)),
      optimizer_states_(optimizer_states),
      change_(graph.ops().size() + 1, 0) {}

void HomeMemory::clear() {
  open_.clear();
  fixed_group_ = -1;
  fixed_ = 0;
  std::fill(change_.begin(), change_.end(), 0);
}

void HomeMemory::set(ValueId id, int group, std::vector<double> bytes) {
  if (graph_.value(id).role == Role::kParameter) {
    for (double& all : bytes) all *= 1 + optimizer_states_;
  }
  if (std::adjacent_find(bytes.begin(), bytes.end(), std::not_equal_to<>()) != bytes.end()) {
    open_.push_back({id, group, std::move(bytes)});
    return;
  }
  fixed_group_ = group;
  fixed_choices_ = bytes.size();
  fixed_ += bytes.front();
  lifetimes_[id].add(bytes.front(), change_);
}

std::optional<Limit> HomeMemory::worst(const std::vector<int>& choices, double bound) const {
  std::vector<double> change = change_;
  for (const Open& value : open_) {
    lifetimes_[value.id].add(value.bytes[choices[value.group]], change);
  }
  double live = 0, most = bound;
  OpId point = -1;
  for (const Op& op : graph_.ops()) {
    live += change[op.id];
    if (live <= most) continue;
    most = live;
    point = op.id;
  }
  if (point < 0) return std::nullopt;
  Limit limit{{}, bound};
  for (const Open& value : open_) {
    if (lifetimes_[value.id].holds(point)) add(value, limit.weights);
  }
  double fixed = 0;
  for (OpId op = 0; op <= point; ++op) fixed += change_[op];
  add_fixed(fixed, limit.weights);
  return limit;
}

std::map<int, std::vector<double>> HomeMemory::all() const {
  std::map<int, std::vector<double>> weights;
  for (const Open& value : open_) add(value, weights);
  add_fixed(fixed_, weights);
  return weights;
}

std::map<int, std::vector<double>> HomeMemory::shared(const std::vector<double>& shares) const {
  std::vector<double> until{0};  // by op the sum of all before it
  for (double share : shares) until.push_back(until.back() + share);
  std::map<int, std::vector<double>> weights;
  for (const Open& value : open_) {
    const Lifetime& life = lifetimes_[value.id];
    double times = until[life.last + 1] - until[life.first];
    if (life.again >= 0) times += until[life.until + 1] - until[life.again];
    if (times == 0) continue;
    std::vector<double>& sums = weights[value.group];
    sums.resize(value.bytes.size(), 0);
    for (size_t choice = 0; choice < sums.size(); ++choice) {
      sums[choice] += times * value.bytes[choice];
    }
  }
  return weights;
}

void HomeMemory::add(const Open& value, std::map<int, std::vector<double>>& weights) {
  std::vector<double>& sums = weights[value.group];
  sums.resize(value.bytes.size(), 0);
  for (size_t choice = 0; choice < sums.size(); ++choice) sums[choice] += value.bytes[choice];
}

void HomeMemory::add_fixed(double bytes, std::map<int, std::vector<double>>& weights) const {
  if (fixed_group_ < 0) return;
  std::vector<double>& sums = weights[fixed_group_];
  sums.resize(fixed_choices_, 0);
  for (double& sum : sums) sum += bytes;
}

}  // namespace smex
