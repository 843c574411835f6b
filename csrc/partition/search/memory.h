#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "partition/plan/plan.h"
#include "partition/search/within_limits.h"

namespace smex {

/// A point of the program: after an op and before what it made or read last is given up.
struct MemoryPoint {
  OpId op = -1;
  int64_t bytes = 0;          ///< of the largest tiles of all values that are live, without fetches
  std::vector<ValueId> live;  ///< ascending
};

/// By op the bytes of the largest tiles of all values that are live, without fetches. Outputs of
/// the operators in `views` take none, and keep their first input.
std::vector<int64_t> live_bytes(const Graph& graph, const Plan& plan,
                                const std::set<std::string>& views = {});

/// The point at which the homes of values take the most memory.
MemoryPoint heaviest_point(const Graph& graph, const Plan& plan,
                           const std::set<std::string>& views = {});

/// From which op to which a value is in memory, both included.
struct Lifetime {
  OpId first = 0, last = 0;
  bool is_view = false;  ///< of a value that lives as long
};

/// By value.
std::vector<Lifetime> lifetimes(const Graph& graph, const std::set<std::string>& views);

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
