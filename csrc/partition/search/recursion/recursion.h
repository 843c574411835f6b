#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <unordered_map>

#include "partition/search/recursion/costs.h"
#include "partition/search/recursion/op_kinds.h"
#include "partition/search/recursion/step_problem.h"
#include "partition/search/smallest.h"

namespace smex {

/// Chooses a plan step by step of the mesh, each the best given those before it (Tofu §5.2), then
/// each anew given all others. Of choices that cost as little, of the last step and of each that is
/// chosen anew, those that take the least memory.
class Recursion {
 public:
  /// For `workers` in all, when all steps are added. With a machine the sum is of seconds,
  /// otherwise of bytes; `merge` is what is cut alike.
  Recursion(const Graph& graph, const Machine* machine, int workers, const SearchOptions& options,
            Merge merge);

  /// Adds steps to the recursion, which are chosen together: given the cuts so far, the next cuts
  /// of all values and ops. False, and this is of no further use, where the elimination's tables
  /// would have more than `max_work` entries.
  bool try_steps(const Mesh& parts, double max_work = std::numeric_limits<double>::infinity());
  /// Chooses each step anew given all others, until none gains.
  void refine();
  /// Forgets the steps, but not what ops cost. From now on memory costs something beside, which
  /// must outlive this, and no limit is kept.
  void begin(const MemoryPrice& price);

  /// What is chosen so far. Without prices.
  const Plan& plan() const { return plan_; }
  /// What its ops cost, in bytes or seconds, and memory where it has a price.
  double total() const { return total_; }

 private:
  /// Some steps, what may be chosen in them and what it costs.
  struct Stage {
    Stage(const Recursion& all, OpGrids& grids, Steps steps);

    const Steps steps;
    const Domains domains;
    StepProblem problem;
  };
  struct Solution {
    Assignment best;
    bool fits = true;   ///< the memory limit
    bool ties = false;  ///< others cost as little
  };

  std::unique_ptr<Stage> stage(Steps steps);
  std::optional<Solution> decide(const Stage& stage, double max_work);
  Assignment decide_greedily(const Stage& stage);
  Solution decide_within_memory(const Stage& stage);
  Solution decide_priced(const Stage& stage);
  Solution decide_smallest(const Stage& stage, Assignment found, const Optima& optima);
  /// By group all choices of its domain.
  static std::vector<std::vector<int>> all_choices(const Stage& stage);
  /// What the homes of values take, by group under the choices of its domain that are `chosen`.
  template <typename Numel>
  void fill(HomeMemory& memory, const Stage& stage, const std::vector<std::vector<int>>& chosen,
            const Numel& numel) const;
  /// For workers of unlike memory: of each kind of worker its homes, and what they may take.
  std::vector<std::pair<HomeMemory, double>> memory_by_kind(const Stage& stage) const;
  HomeMemory& memory_of(const Stage& stage, const std::vector<std::vector<int>>& chosen,
                        double share);
  bool is_smaller(const Solution& solution, const Stage& stage);
  void apply(const Solution& solution, const Stage& stage);

  const Machine* machine_;
  const int workers_;
  const SearchOptions& options_;
  const MergedGraph merged_;
  OpGrids grids_;
  OpKinds kinds_;
  std::unordered_map<int, OpCosts> costs_;  ///< by kind
  std::mt19937_64 random_;
  Plan plan_;
  double total_ = 0;
  std::optional<HomeMemory> memory_;  ///< once asked for
  bool refining_ = false;             ///< steps are chosen anew
  const MemoryPrice* price_ = nullptr;
};

/// The plan of all steps, as many together as the options say, refined where they ask for it.
/// Nothing where the first step's tables would have more than `max_work` entries.
std::optional<Plan> search_merged(const Graph& graph, const Machine* machine, const Mesh& mesh,
                                  const SearchOptions& options, Merge merge,
                                  double max_work = std::numeric_limits<double>::infinity());

}  // namespace smex
