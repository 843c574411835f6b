#include "partition/search/portfolio.h"

#include <algorithm>

#include "ir/error.h"
#include "partition/plan/dim_classes.h"
#include "partition/price/memory.h"
#include "partition/search/advice.h"
#include "partition/search/meshes.h"
#include "partition/search/parallel.h"
#include "partition/search/regions.h"

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

/// What came of all requests.
struct Attempts {
  std::vector<Attempt> all;
  std::optional<size_t> best;       ///< the first of the cheapest plans
  std::optional<size_t> too_large;  ///< the first request whose limit excludes all
  double least = 0;                 ///< cost of the best

  FoundPlan& found(size_t number) { return std::get<FoundPlan>(all[number]); }
};

Attempts attempt_all(const Graph& graph, const std::vector<Request>& requests) {
  Attempts attempts;
  attempts.all.resize(requests.size());
  for_all(requests.size(), [&](size_t n) { attempts.all[n] = attempt(graph, requests[n]); });
  const auto is_smaller = [&](size_t one, size_t other) {
    const auto homes = [&](size_t n) {
      return peak_of_homes(graph, attempts.found(n).plan, requests[n].options.views);
    };
    return !requests[one].options.memory_limit && homes(one) < homes(other);
  };
  for (size_t n = 0; n < requests.size(); ++n) {
    if (std::holds_alternative<FoundPlan>(attempts.all[n])) {
      const double cost = Solver(graph, requests[n]).cost(attempts.found(n));
      if (attempts.best && cost > attempts.least) continue;
      if (attempts.best && cost == attempts.least && !is_smaller(n, *attempts.best)) continue;
      attempts.best = n;
      attempts.least = cost;
    } else if (std::holds_alternative<NothingFits>(attempts.all[n]) && !attempts.too_large) {
      attempts.too_large = n;
    }
  }
  return attempts;
}

Outcome too_large(const Graph& graph, const std::vector<Request>& requests, Attempts& attempts) {
  const size_t number = *attempts.too_large;
  FoundPlan& smallest = std::get<NothingFits>(attempts.all[number]).least;
  return {number, explained(graph, requests[number], smallest), {}};
}

/// The attempts when all repeated modules run again or, where that is as cheap, as few of the first
/// ones as let a plan fit; `graph` gets their regions. Nothing without repeated modules.
Attempts recomputing(Graph& graph, const std::vector<Request>& requests) {
  const std::vector<int> own = regions_of(graph), all = module_regions(graph);
  const int first = num_regions(own);
  int most = num_regions(all) - first, least = 1;
  if (most == 0) return {};
  const auto run_again = [&](int count) {
    std::vector<int> regions = all;
    for (size_t op = 0; op < regions.size(); ++op) {
      if (regions[op] >= first + count) regions[op] = own[op];
    }
    graph.set_regions(regions);
  };
  run_again(most);
  Attempts found = attempt_all(graph, requests);
  if (!found.best) return found;
  const size_t number = *found.best;
  while (least < most) {
    const int count = least + (most - least) / 2;
    run_again(count);
    Attempts fewer = attempt_all(graph, {requests[number]});
    if (!fewer.best || fewer.least > found.least) {
      least = count + 1;
      continue;
    }
    most = count;
    found.all[number] = std::move(fewer.all.front());
    found.least = fewer.least;
  }
  run_again(0);
  const Solver solver(graph, requests[number]);
  const double bound = solver.cost(solver.search(requests[number].pins));
  run_again(most);
  FoundPlan& plan = found.found(number);
  plan.plan.gap = std::max(plan.plan.gap, found.least > 0 ? 1 - bound / found.least : 0.0);
  if (plan.plan.gap > 0) plan.plan.exact = false;
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
  Attempts kept = attempt_all(graph, requests);
  const SearchOptions& options = requests.front().options;
  const bool is_limited = kept.best ? kept.found(*kept.best).limited : kept.too_large.has_value();
  if (options.recompute && is_limited && (!kept.best || options.objective == Objective::kTime)) {
    Graph again = graph;
    Attempts run_again = recomputing(again, requests);
    if (run_again.best && (!kept.best || run_again.least < kept.least)) {
      return {*run_again.best, std::move(run_again.found(*run_again.best)), regions_of(again)};
    }
    if (!kept.best && run_again.too_large) return too_large(again, requests, run_again);
  }
  if (kept.best) return {*kept.best, std::move(kept.found(*kept.best)), {}};
  if (kept.too_large) return too_large(graph, requests, kept);
  return {0, std::get<IdlePin>(std::move(kept.all.front())), {}};
}

}  // namespace smex
