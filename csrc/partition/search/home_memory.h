#pragma once

#include <map>
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
  HomeMemory(const Graph& graph, const std::set<std::string>& views, double optimizer_states);

  /// Whether the value takes memory of its own.
  bool counts(ValueId id) const { return !lifetimes_[id].is_view; }
  /// Forgets what was set.
  void clear();
  /// The bytes of a value's largest tile by the choice of its group.
  void set(ValueId id, int group, std::vector<double> bytes);
  /// Whether what values take depends on choices.
  bool varies() const { return !open_.empty(); }
  /// The point that exceeds a limit most. What does not depend on choices is given as of one group.
  std::optional<Limit> worst(const std::vector<int>& choices, double limit) const;
  /// By group and choice the bytes of all values, whenever they live; likewise.
  std::map<int, std::vector<double>> all() const;
  /// By group and choice the bytes of values, each times the sum of `shares` over the points at
  /// which it lives, which are by op. What does not depend on choices is left out.
  std::map<int, std::vector<double>> shared(const std::vector<double>& shares) const;

 private:
  const Graph& graph_;
  const std::vector<Lifetime> lifetimes_;
  const double optimizer_states_;
  /// A value that takes other bytes under other choices.
  struct Open {
    ValueId id = kNoValue;
    int group = -1;
    std::vector<double> bytes;  ///< by choice
  };
  static void add(const Open& value, std::map<int, std::vector<double>>& weights);
  void add_fixed(double bytes, std::map<int, std::vector<double>>& weights) const;

  std::vector<Open> open_;
  std::vector<double> change_;  ///< by op how many more bytes of all others are live from it on
  double fixed_ = 0;            ///< bytes of all others
  int fixed_group_ = -1;        ///< the group of one of them
  size_t fixed_choices_ = 0;    ///< and how many choices it has
};

}  // namespace smex
