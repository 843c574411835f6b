#include "partition/search/recursion/costs.h"

namespace smex {

namespace {

/// More than any plan costs.
constexpr double kImpossible = 1e30;
/// Larger tables of an op's groups are left as one for each operand.
constexpr int64_t kMaxJoint = 4096;

/// Whether an input that is pending is one of the addends that the op computes with, and only then.
bool takes_addends(const Operand& operand, const Strategy& strategy, const Choices& cut) {
  for (size_t i = 0; i < cut.size() && !operand.output; ++i) {
    const bool wanted = strategy.pending[i] >> operand.position & 1;
    if (wanted != (cut[i] == kPending)) return false;
  }
  return true;
}

}  // namespace

Costs::Costs(const MergedGraph& merged, const Machine* machine, int workers, OpGrids& grids,
             const Plan& plan, Steps steps, const Domains& domains)
    : merged_(merged),
      machine_(machine),
      workers_(workers),
      grids_(grids),
      plan_(plan),
      steps_(steps),
      domains_(domains) {}

OpCosts Costs::of(const OpClass& members) const {
  const Op& op = merged_.graph.op(members.op);
  OpCosts costs;
  costs.strategies = domains_.of_op(op);
  const Tiles all = tiles(op, costs.strategies);
  for (const OpGrid& grid : all.grids.back()) costs.compute.push_back(compute_seconds(op, grid));
  for (const Operand& operand : members.operands) {
    auto& table = costs.by_operand.emplace_back();
    for (const Choices& cut : domains_.of_group(members.groups[operand.slot])) {
      for (size_t strategy = 0; strategy < costs.strategies.size(); ++strategy) {
        const bool possible = takes_addends(operand, costs.strategies[strategy], cut);
        table.push_back(operand_cost(operand, cut, all, strategy, possible ? 0 : kImpossible));
      }
    }
  }
  join(members, costs);
  return costs;
}

/// Seconds are those of each step, bytes those of all.
Costs::Tiles Costs::tiles(const Op& op, const std::vector<Strategy>& strategies) const {
  Tiles tiles;
  const size_t steps = plan_.mesh.size();
  for (size_t count = machine_ ? 1 : steps; count <= steps; ++count) {
    const Mesh& mesh = tiles.meshes.emplace_back(
        plan_.mesh.begin(), plan_.mesh.begin() + static_cast<std::ptrdiff_t>(count));
    auto& row = tiles.grids.emplace_back();
    for (const Strategy& strategy : strategies) {
      if (count <= steps_.first && !row.empty()) break;  // the same under all strategies
      row.push_back(grids_.make(op, steps_.with(plan_.ops[op.id], strategy.choices, count), mesh));
    }
  }
  return tiles;
}

/// `cost` and what an operand adds to it.
double Costs::operand_cost(const Operand& operand, const Choices& cut, const Tiles& tiles,
                           size_t strategy, double cost) const {
  const Choices& cuts = plan_.values[operand.value];
  double before = 0;
  for (size_t n = 0; n < tiles.meshes.size(); ++n) {
    const Mesh& mesh = tiles.meshes[n];
    const OpGrid& grid = tiles.of(n, strategy);
    const Choices choices = steps_.with(cuts, cut, mesh.size());
    const std::optional<double> moved = operand.output ? store_bytes(operand, grid, choices, mesh)
                                                       : fetch_bytes(operand, grid, choices, mesh);
    if (!moved) cost = kImpossible;
    const double bytes = moved.value_or(0);
    cost += machine_ ? machine_->transfer(mesh.size() - 1, bytes - before, workers_) : bytes;
    before = bytes;
  }
  return cost;
}

double Costs::fetch_bytes(const Operand& input, const OpGrid& grid, const Choices& choices,
                          const Mesh& mesh) const {
  const auto& own = grid.inputs[input.position];
  if (!own) return 0;
  const Value& value = merged_.graph.value(input.value);
  const Grid home = home_grid(value.shape, merged_.grains[value.id], choices, mesh);
  return static_cast<double>(moved_numel(home, *own, mesh) * value.itemsize);
}

std::optional<double> Costs::store_bytes(const Operand& output, const OpGrid& grid,
                                         const Choices& choices, const Mesh& mesh) const {
  const auto& own = grid.outputs[output.position];
  if (!own) return 0;
  const Value& value = merged_.graph.value(output.value);
  const Grid home = home_grid(value.shape, merged_.grains[value.id], choices, mesh);
  const std::optional<int64_t> numel = stored_numel(*own, home, mesh, output.weighs);
  if (!numel) return std::nullopt;
  return static_cast<double>(*numel * value.itemsize);
}

double Costs::compute_seconds(const Op& op, const OpGrid& grid) const {
  if (!machine_) return 0;
  return machine_->compute(merged_.graph, op, grid, plan_.mesh, workers_, domains_.weighting());
}

/// The cheapest strategy for all choices of the groups, where they are not too many.
void Costs::join(const OpClass& members, OpCosts& costs) const {
  int64_t entries = 1;
  for (int group : members.groups) {
    entries *= static_cast<int64_t>(domains_.of_group(group).size());
    if (entries > kMaxJoint) return;
  }
  const size_t strategies = costs.strategies.size();
  std::vector<size_t> digits(members.groups.size(), 0);
  for (int64_t entry = 0; entry < entries; ++entry) {
    int best = 0;
    double least = 0;
    for (size_t strategy = 0; strategy < strategies; ++strategy) {
      double cost = costs.compute[strategy];
      for (size_t i = 0; i < members.operands.size(); ++i) {
        cost += costs.by_operand[i][digits[members.operands[i].slot] * strategies + strategy];
      }
      if (strategy > 0 && cost >= least) continue;
      least = cost;
      best = static_cast<int>(strategy);
    }
    costs.cost.push_back(least);
    costs.best.push_back(best);
    for (size_t d = digits.size(); d-- > 0;) {
      if (++digits[d] < domains_.of_group(members.groups[d]).size()) break;
      digits[d] = 0;
    }
  }
  costs.by_operand.clear();
}

}  // namespace smex
