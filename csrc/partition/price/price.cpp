#include "partition/price/price.h"

#include <unordered_map>

#include "partition/plan/dim_classes.h"
#include "partition/plan/grid.h"
#include "partition/plan/interner.h"
#include "partition/plan/recomputation.h"

namespace smex {

namespace {

class Pricing {
 public:
  Pricing(const Graph& graph, const Machine* machine, const Plan& plan)
      : graph_(graph), machine_(machine), plan_(plan), classes_(graph), grids_(graph, classes_) {
    for (const Value& value : graph.values()) {
      const std::vector<Grain>& grains = grains_.emplace_back(classes_.grains(value.id));
      std::vector<int64_t> key{value.itemsize};
      key.insert(key.end(), value.shape.begin(), value.shape.end());
      for (const Grain& grain : grains) key.push_back(grain.key());
      const Choices& choices = plan.values[value.id];
      key.insert(key.end(), choices.begin(), choices.end());
      placed_.push_back(placements_.number(std::move(key)));
    }
  }

  /// Of all its runs.
  OpPrice of(const Op& op) {
    const auto [it, fresh] = prices_.try_emplace(kind(op));
    if (fresh) it->second = compute(op);
    OpPrice price = it->second;
    const int runs = recomputed_.runs(op.id);
    for (int64_t& bytes : price.step_bytes) bytes *= runs;
    for (double& seconds : price.step_seconds) seconds *= runs;
    price.compute_seconds *= runs;
    return price;
  }

 private:
  int kind(const Op& op) {
    std::vector<int64_t> key{op.random, reinterpret_cast<int64_t>(op.spec.get())};
    for (size_t i = 0; op.spec && i < op.spec->indices.size(); ++i) {
      key.push_back(classes_.grain(op, static_cast<int>(i)).key());
    }
    key.insert(key.end(), plan_.ops[op.id].begin(), plan_.ops[op.id].end());
    for (ValueId input : op.inputs) key.push_back(placed_[input]);
    for (ValueId output : op.outputs) {
      key.push_back(output == kNoValue ? kNoValue : placed_[output]);
    }
    return kinds_.number(std::move(key));
  }

  OpPrice compute(const Op& op) {
    OpPrice price;
    const size_t operands = op.inputs.size() + op.outputs.size();
    const int workers = mesh_size(plan_.mesh);
    std::vector<int64_t> before(operands, 0);
    const std::vector<bool> weighing = weighing_outputs(op);
    for (size_t step = 0; step < plan_.mesh.size(); ++step) {
      const auto until = [&](const Choices& all) {
        return Choices(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(step) + 1);
      };
      const Mesh mesh = until(plan_.mesh);
      const OpGrid grid = grids_.make(op, until(plan_.ops[op.id]), mesh);
      int64_t bytes = 0;
      double seconds = 0;
      for (size_t n = 0; n < operands; ++n) {
        const bool output = n >= op.inputs.size();
        const size_t position = output ? n - op.inputs.size() : n;
        const ValueId id = output ? op.outputs[position] : op.inputs[position];
        const auto& own = (output ? grid.outputs : grid.inputs)[position];
        if (id == kNoValue) continue;
        const Value& value = graph_.value(id);
        const Grid home = home_grid(value.shape, grains_[id], until(plan_.values[id]), mesh);
        // An op that no step has split yet needs whole what later it may need the shape of only.
        const int64_t numel = !own     ? 0
                              : output ? stored_numel(*own, home, mesh, weighing[position]).value()
                                       : moved_numel(home, *own, mesh);
        const int64_t all = numel * value.itemsize;
        const int64_t added = all - before[n];
        bytes += added;
        before[n] = all;
        if (machine_) seconds += machine_->transfer(step, static_cast<double>(added), workers);
      }
      price.step_bytes.push_back(bytes);
      price.step_seconds.push_back(seconds);
      if (machine_ && step + 1 == plan_.mesh.size()) {
        price.compute_seconds = machine_->compute(graph_, op, grid, mesh, workers);
      }
    }
    if (machine_ && plan_.mesh.empty()) {
      price.compute_seconds = machine_->compute(graph_, op, grids_.make(op, {}, {}), {}, 1);
    }
    return price;
  }

  const Graph& graph_;
  const Machine* machine_;
  const Plan& plan_;
  const DimClasses classes_;
  OpGrids grids_;
  const Recomputation recomputed_ = recomputation(graph_);
  Interner placements_;  ///< of tensors: shape, item size, grains and cuts
  Interner kinds_;       ///< of ops that cost the same
  std::vector<std::vector<Grain>> grains_;
  std::vector<int> placed_;  ///< by value its number in `placements_`
  std::unordered_map<int, OpPrice> prices_;
};

}  // namespace

std::vector<OpPrice> op_prices(const Graph& graph, const Machine* machine, const Plan& plan) {
  Pricing pricing(graph, machine, plan);
  std::vector<OpPrice> prices;
  for (const Op& op : graph.ops()) prices.push_back(pricing.of(op));
  return prices;
}

void price(const Graph& graph, const Machine* machine, Plan& plan) {
  Pricing pricing(graph, machine, plan);
  plan.step_bytes.assign(plan.mesh.size(), 0);
  plan.step_seconds.assign(machine ? plan.mesh.size() : 0, 0);
  plan.compute_seconds = 0;
  for (const Op& op : graph.ops()) {
    const OpPrice price = pricing.of(op);
    for (size_t step = 0; step < plan.mesh.size(); ++step) {
      plan.step_bytes[step] += price.step_bytes[step];
      if (machine) plan.step_seconds[step] += price.step_seconds[step];
    }
    plan.compute_seconds += price.compute_seconds;
  }
}

}  // namespace smex
