#include "partition/search/portfolio.h"

#include <algorithm>

#include "ir/error.h"
#include "partition/plan/dim_classes.h"
#include "partition/price/memory.h"
#include "partition/search/advice.h"
#include "partition/search/meshes.h"
#include "partition/search/parallel.h"

namespace smex {

namespace {

constexpr size_t kCompared = 1000;  // calls of a graph for which other planners are tried too
constexpr size_t kOrdered = 2000;   // calls of all graphs that are searched for other orders

/// The other planners, of which a recursion of several steps might be the worse one. A single step
/// is never worse; many steps and large graphs take too long to be searched so often.
std::vector<Planner> rivals(const Graph& graph, const Request& request) {
  const size_t steps = request.mesh.size();
  if (steps < 2 || steps > kRefinedSteps || graph.ops().size() > kCompared) return {};
  std::vector<Planner> found;
  for (const Planner planner : all_planners()) {
    if (planner == Planner::kRandom || planner == Planner::kTofu) continue;
    // These replicate tensors that a recursion for the fewest bytes has to cut.
    const bool must_cut = request.options.replicate_bytes < kAllBytes;
    if (must_cut && rules_of(planner).replicate_parameters) continue;
    found.push_back(planner);
  }
  return found;
}

/// How many orders of the steps are tried beside those that are known.
size_t most_orders(const Graph& graph, const SearchOptions& options) {
  const size_t calls = graph.ops().size();
  if (options.memory_limit || calls > kCompared) return 0;
  return kOrdered / std::max<size_t>(1, calls);
}

/// A plan that the request's limit excludes.
struct NothingFits {
  FoundPlan least;  ///< the one that exceeds it least
};
using Attempt = std::variant<FoundPlan, NothingFits, IdlePin>;

/// The first pin of which a worker holds nothing.
std::optional<IdlePin> idle_pin(const Graph& graph, const Request& request, const Plan& plan) {
  if (request.pins.empty()) return std::nullopt;
  const DimClasses classes(graph);
  for (size_t pin = 0; pin < request.pins.size(); ++pin) {
    const ValueId value = request.pins[pin].value;
    const std::vector<Tile> tiles = home_layout(graph, classes, plan, value).tiles;
    const auto idle =
        std::find_if(tiles.begin(), tiles.end(), [](const Tile& tile) { return !tile.held; });
    if (idle != tiles.end()) {
      return IdlePin{pin, plan.values[value], static_cast<int>(idle - tiles.begin())};
    }
  }
  return std::nullopt;
}

Attempt attempt(const Graph& graph, const Request& request) {
  const Solver solver(graph, request);
  FoundPlan free = solver.search(request.pins);
  if (auto idle = idle_pin(graph, request, free.plan)) return std::move(*idle);
  if (!request.options.memory_limit || solver.keeps(free)) return free;
  NothingFits nothing;
  auto within = solver.within_memory(request.pins, free, &nothing.least);
  if (within) return std::move(*within);
  return nothing;
}

TooLarge explained(const Graph& graph, const Request& request, FoundPlan& least) {
  const Solver solver(graph, request);
  TooLarge found;
  found.workers = mesh_size(least.plan.mesh);
  found.peak = solver.peak(least);
  found.conflict = conflicting_pins(solver);
  if (!found.conflict.empty()) return found;
  found.op = heaviest_point(graph, least.plan, request.options.views).op;
  found.kept = static_cast<double>(parameter_bytes(graph, least.plan)) *
               (1 + request.options.optimizer_states);
  found.enough_workers = enough_workers(solver, least);
  return found;
}

}  // namespace

std::vector<Request> candidates(const Graph& graph, const Mesh& mesh, const SearchOptions& options,
                                bool any_mesh) {
  std::vector<Request> found{{mesh, options, {}, {}}};
  std::vector<Mesh> orders;
  if (options.planner == Planner::kTofu && any_mesh) {
    std::vector<Mesh> known{mesh};
    for (const Mesh& other : longer_steps(mesh, options)) {
      known.push_back(other);
      found.push_back({other, options, {}, {}});
    }
    orders = products(mesh_size(mesh), most_orders(graph, options), known);
  }
  if (options.planner == Planner::kTofu && !options.memory_limit) {
    for (size_t n = 0, own = found.size(); n < own; ++n) {
      for (const Planner planner : rivals(graph, found[n])) {
        found.push_back(found[n]);
        found.back().options.planner = planner;
      }
    }
  }
  for (const Mesh& other : orders) found.push_back({other, options, {}, {}});
  if (options.joint > 1) {  // which may need tensors to be merged that single steps keep apart
    found.push_back(found.front());
    found.back().options.joint = 1;
  }
  return found;
}

Outcome best_plan(const Graph& graph, const std::vector<Request>& requests) {
  if (requests.empty()) throw InternalError("search: no plan is asked for");
  std::vector<Attempt> attempts(requests.size());
  for_all(requests.size(), [&](size_t n) { attempts[n] = attempt(graph, requests[n]); });
  std::optional<size_t> best, too_large;
  double least = 0;
  for (size_t n = 0; n < attempts.size(); ++n) {
    if (const auto* found = std::get_if<FoundPlan>(&attempts[n])) {
      const double cost = Solver(graph, requests[n]).cost(*found);
      if (best && cost >= least) continue;
      best = n;
      least = cost;
    } else if (std::holds_alternative<NothingFits>(attempts[n]) && !too_large) {
      too_large = n;
    }
  }
  if (best) return {*best, std::get<FoundPlan>(std::move(attempts[*best]))};
  if (too_large) {
    FoundPlan& smallest = std::get<NothingFits>(attempts[*too_large]).least;
    return {*too_large, explained(graph, requests[*too_large], smallest)};
  }
  return {0, std::get<IdlePin>(std::move(attempts.front()))};
}

}  // namespace smex
