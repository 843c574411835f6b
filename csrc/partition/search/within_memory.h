#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "partition/lower/program.h"
#include "partition/search/search.h"

namespace smex {

/// A placement that is given: one choice for each step.
struct Pin {
  ValueId value = kNoValue;
  Choices placement;
};

/// What a tensor was cut into by the plan of another graph, which stays.
struct Shards {
  Choices placement;
  std::vector<Tile> tiles;  ///< by worker
};

/// A plan that was asked for.
struct Request {
  Mesh mesh;
  SearchOptions options;  ///< without placements
  std::vector<Pin> pins;  ///< in the order in which they were given
  std::map<ValueId, Shards> shards;
};

/// A plan that was found.
struct FoundPlan {
  Plan plan;
  int64_t replicate_bytes = 0;  ///< that it was searched with
  bool limited = false;         ///< the memory limit excludes what the search finds without it
  /// Once the peak was asked for: the program, by worker the peak bytes of its live tensors, and of
  /// the fullest worker with the optimiser's states.
  std::unique_ptr<Program> program;
  std::vector<int64_t> peak_bytes;
  double peak = 0;
};

/// Searches a graph as a request says, for its pins or others.
class Solver {
 public:
  Solver(const Graph& graph, const Request& request) : graph_(graph), request_(request) {}

  /// The cheapest plan with these pins; with a limit, the homes of tensors keep to it.
  FoundPlan search(const std::vector<Pin>& pins, std::optional<double> limit = {}) const;
  /// The cheapest plan whose predicted peak keeps to the memory limit, which `free`, found without
  /// one, does not. Nothing where no plan that was found does; `least`, where given, becomes the
  /// one whose homes take the least.
  ///
  /// The search counts the homes of tensors. Where what a plan fetches beside them exceeds the
  /// limit, it is searched again with so much less. The recursion spends memory step by step, and
  /// may do better, or fit at all, with less in the first ones, with fewer replicas, or where each
  /// byte has the same price in all steps, which is found by bisection. For large graphs and many
  /// steps that alone is tried.
  std::optional<FoundPlan> within_memory(const std::vector<Pin>& pins, const FoundPlan& free,
                                         FoundPlan* least = nullptr) const;
  /// Whether some plan for so many workers may keep to the limit: at no point are the parts of
  /// tensors' elements that each worker has at the least larger than that.
  bool may_fit() const;
  /// Whether the predicted peak keeps to the limit. Far above it what calls hold tells, sooner,
  /// for plans that take long to lower. A plan that keeps to it only where sums over edges are
  /// added up by peer becomes one that does so.
  bool keeps(FoundPlan& found) const;
  /// Whether a plan with these pins keeps to the limit.
  bool fits(const std::vector<Pin>& pins) const;
  /// What the search minimises: seconds or bytes of an iteration.
  double cost(const FoundPlan& found) const;
  /// The predicted peak of the fullest worker, the optimiser's states included, by the scale of its
  /// memory.
  double peak(FoundPlan& found) const;

  const Graph& graph() const { return graph_; }
  const Request& request() const { return request_; }

 private:
  FoundPlan search(const std::vector<Pin>& pins, std::optional<double> limit,
                   int64_t replicate_bytes) const;
  SearchOptions options_with(const std::vector<Pin>& pins) const;
  void keep_shards_of(Plan& plan) const;
  std::optional<FoundPlan> by_price(const std::vector<Pin>& pins, const FoundPlan& free,
                                    std::vector<FoundPlan>& too_large) const;
  bool keeps_by_peer(FoundPlan& found) const;
  double homes(const FoundPlan& found) const;
  /// As `peak`, sooner, of what calls hold.
  double held(const FoundPlan& found) const;

  const Graph& graph_;
  const Request& request_;
};

}  // namespace smex
