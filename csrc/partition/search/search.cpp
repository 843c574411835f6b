#include "partition/search/search.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "ir/error.h"
#include "partition/price/memory.h"
#include "partition/price/price.h"
#include "partition/search/recursion/recursion.h"

namespace smex {

namespace {

/// Of a plan with prices: seconds, or bytes without a machine.
double cost_of(const Plan& plan) {
  double cost = plan.compute_seconds;
  for (double seconds : plan.step_seconds) cost += seconds;
  if (!plan.step_seconds.empty() || plan.compute_seconds > 0) return cost;
  for (int64_t bytes : plan.step_bytes) cost += static_cast<double>(bytes);
  return cost;
}

/// Whether a plan is cheaper, or as cheap and its tensors' homes take less at the fullest point.
bool is_better(const Graph& graph, const SearchOptions& options, const Plan& plan,
               const Plan& other) {
  const double own = cost_of(plan), known = cost_of(other);
  if (own != known || options.memory_limit || plan.values == other.values) return own < known;
  return peak_of_homes(graph, plan, options.views) < peak_of_homes(graph, other, options.views);
}

bool has_pins(const Plan& plan, const std::map<ValueId, Choices>& pins) {
  return std::all_of(pins.begin(), pins.end(),
                     [&](const auto& pin) { return plan.values[pin.first] == pin.second; });
}

}  // namespace

Objective objective_of(const std::string& name) {
  if (name == "communication") return Objective::kCommunication;
  if (name == "time") return Objective::kTime;
  throw UserError("search: unknown objective \"" + name +
                  "\"; known are \"communication\" and \"time\"");
}

Mesh factorise(int workers) {
  if (workers < 1) {
    throw UserError("workers must be at least 1, got " + std::to_string(workers));
  }
  Mesh mesh;
  for (int factor = 2; workers > 1; ++factor) {
    while (workers % factor == 0) {
      mesh.push_back(factor);
      workers /= factor;
    }
  }
  std::sort(mesh.rbegin(), mesh.rend());
  return mesh;
}

Mesh default_mesh(int workers, Planner planner) {
  if (rules_of(planner).one_step && workers > 1) return {workers};
  return factorise(workers);
}

Plan search(const Graph& graph, const Mesh& mesh, const SearchOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  std::optional<Machine> machine;
  if (options.machine) machine = options.machine->on(mesh);
  const Machine* timed = machine && options.objective == Objective::kTime ? &*machine : nullptr;
  const auto found_with = [&](Merge merge, double max_work) {
    auto plan = search_merged(graph, timed, mesh, options, merge, max_work);
    if (!plan) return plan;
    plan->planner = name_of(options.planner);
    place_parameters(options.planner, graph, options.pinned, *plan);
    price(graph, timed, *plan);
    return plan;
  };
  const Rules& rules = rules_of(options.planner);
  std::optional<Plan> found;
  const bool unmerged = rules.order == Rules::Order::kExact && !options.merge &&
                        graph.ops().size() <= options.max_unmerged;
  for (const Merge merge : {Merge::kGradients, Merge::kSteps}) {
    if (!unmerged || found) break;
    found = found_with(merge, options.max_work);
  }
  // A finer first step does not make the recursion cheaper as a whole.
  if (!found || (mesh.size() > 1 && !options.memory_limit)) {
    for (const Merge merge : {Merge::kPointwise, Merge::kSteps, Merge::kGradients}) {
      if (merge != options.merge.value_or(merge)) continue;
      auto merged = found_with(merge, std::numeric_limits<double>::infinity());
      const bool usable = has_pins(*merged, options.pinned);
      if (!found || (usable && is_better(graph, options, *merged, *found))) {
        found = std::move(merged);
      }
      if (has_pins(*found, options.pinned)) break;  // what is merged cannot be pinned apart
      if (merge != Merge::kGradients && !options.merge) found.reset();
    }
  }
  Plan plan = std::move(*found);
  plan.search_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (machine && !timed) price(graph, &*machine, plan);
  return plan;
}

}  // namespace smex
