#pragma once

#include <cstdint>
#include <vector>

#include "partition/plan/grid.h"
#include "partition/search/recursion/merged_graph.h"
#include "partition/search/recursion/steps.h"

namespace smex {

/// What may be chosen of a group: for the steps that are chosen together, the dimension to cut in
/// each.
using Domain = std::vector<Choices>;

/// A way to run an op in the steps that are chosen together.
struct Strategy {
  Choices choices;
  /// By step: of kPending the inputs, as bits, that are addends; the others are not.
  std::vector<uint64_t> pending;

  /// The same, and then something in the next step.
  Strategy longer(int choice, uint64_t set = 0) const;
};

/// What the planner's rules, the pins and the sizes allow in some steps, given what a plan does in
/// all others.
class Domains {
 public:
  Domains(const MergedGraph& merged, const SearchOptions& options, OpGrids& grids, const Plan& plan,
          Steps steps);

  /// The cuts that a group may take: its pin, or in each step every dimension that is still long
  /// enough, replicas where it is small or cannot be cut, and addends where they may stay pending.
  const Domain& of_group(int group) const { return groups_[group]; }
  size_t groups() const { return groups_.size(); }
  /// By which all cuts are made; null: evenly.
  const Weighting* weighting() const;
  /// The strategies that an op may use: every split that leaves no worker without work, repetition
  /// where nothing can be split or it costs little, and addends where all inputs may have them.
  std::vector<Strategy> of_op(const Op& op) const;

 private:
  Domain cuts(size_t group) const;
  std::vector<int> next_cuts(size_t group, const Choices& cut) const;
  void add_longer(const Op& op, const Strategy& strategy, std::vector<Strategy>& found) const;
  bool add_splits(const Op& op, const Strategy& strategy, std::vector<Strategy>& found) const;
  bool cuts_messages_so(const Op& op, const tdl::Split& split, size_t step) const;
  bool has_parts(const Grain& grain, int64_t whole, int64_t left, int parts) const;
  bool free_to_repeat(const Op& op) const;
  bool all_may_pend(const Op& op, uint64_t set, size_t chosen) const;

  const MergedGraph& merged_;
  const SearchOptions& options_;
  const Rules& rules_;
  OpGrids& grids_;
  const Plan& plan_;
  const Steps steps_;
  std::vector<Domain> groups_;
};

}  // namespace smex
