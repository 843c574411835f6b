#pragma once

#include <optional>
#include <vector>

#include "partition/plan/grid.h"
#include "partition/price/machine.h"
#include "partition/search/recursion/domains.h"

namespace smex {

/// What an op costs by what is chosen, in bytes or seconds.
struct OpCosts {
  std::vector<Strategy> strategies;
  /// By choices of the op's groups, the last fastest: the cost under the cheapest strategy, and
  /// which that is. Empty when there are too many choices.
  std::vector<double> cost;
  std::vector<int> best;
  /// Otherwise by operand: the cost by (choice of its group, strategy).
  std::vector<std::vector<double>> by_operand;
  std::vector<double> compute;  ///< by strategy
};

/// Counts what ops cost under what may be chosen in some steps, given what a plan does in all
/// others. With a machine in seconds of all `workers`, otherwise in bytes.
class Costs {
 public:
  Costs(const MergedGraph& merged, const Machine* machine, int workers, OpGrids& grids,
        const Plan& plan, Steps steps, const Domains& domains);

  /// By all choices of the op's groups.
  OpCosts of(const OpClass& members) const;

  /// Bytes that all workers receive of an input whose home is cut by `choices`.
  double fetch_bytes(const Operand& input, const OpGrid& grid, const Choices& choices,
                     const Mesh& mesh) const;
  /// Bytes that all workers receive to bring an output to its home, the reduction included; nothing
  /// where the home has addends that the op does not make.
  std::optional<double> store_bytes(const Operand& output, const OpGrid& grid,
                                    const Choices& choices, const Mesh& mesh) const;
  /// Seconds of an op in the end, when the steps that are still to come have divided it; 0 without
  /// a machine.
  double compute_seconds(const Op& op, const OpGrid& grid) const;

 private:
  /// The op's tiles for each number of steps that is counted.
  struct Tiles {
    std::vector<Mesh> meshes;
    std::vector<std::vector<OpGrid>> grids;  ///< by mesh and strategy; one where all are alike

    const OpGrid& of(size_t mesh, size_t strategy) const {
      return grids[mesh].size() == 1 ? grids[mesh].front() : grids[mesh][strategy];
    }
  };

  Tiles tiles(const Op& op, const std::vector<Strategy>& strategies) const;
  double operand_cost(const Operand& operand, const Choices& cut, const Tiles& tiles,
                      size_t strategy, double cost) const;
  void join(const OpClass& members, OpCosts& costs) const;

  const MergedGraph& merged_;
  const Machine* machine_;
  const int workers_;
  OpGrids& grids_;
  const Plan& plan_;
  const Steps steps_;
  const Domains& domains_;
};

}  // namespace smex
