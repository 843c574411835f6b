#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "partition/price/memory.h"
#include "partition/search/minimise/within_limits.h"

namespace smex {

/// What the homes of values take at every point of a program, by the choices of groups of them.
class HomeMemory {
 public:
  HomeMemory(const Graph& graph, const std::set<std::string>& views, double optimizer_states,
             double limit);

  /// Whether the value takes memory of its own.
  bool counts(ValueId id) const { return !lifetimes_[id].is_view; }
  /// The bytes of a value's largest tile by the choice of its group.
  void add(ValueId id, int group, std::vector<double> bytes);
  /// The point that exceeds the limit most.
  std::optional<Limit> worst(const std::vector<int>& choices) const;

 private:
  const Graph& graph_;
  const std::vector<Lifetime> lifetimes_;
  const double optimizer_states_;
  const double limit_;
  std::vector<int> groups_;                 ///< by value
  std::vector<std::vector<double>> bytes_;  ///< by value and choice
};

}  // namespace smex
