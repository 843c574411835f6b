#include "partition/search/portfolio.h"

#include <algorithm>

#include "ir/error.h"
#include "partition/lower/overlap.h"
#include "partition/plan/dim_classes.h"
#include "partition/price/memory.h"
#include "partition/search/advice.h"
#include "partition/search/meshes.h"
#include "partition/search/parallel.h"
#include "partition/search/quicker.h"
#include "partition/search/regions.h"
#include "partition/search/reruns.h"
#include "partition/vertices/boundaries.h"

namespace smex {

namespace {

constexpr size_t kCompared = 1000;  // calls of a graph for which other planners are tried too
constexpr size_t kOrdered = 2000;   // calls of all graphs that are searched for other orders

/// The other planners, of which a recursion of several steps might be the worse one. A single step
/// is never worse; many steps and large graphs take too long to be searched so often.
std::vector<Planner> rivals(const Graph& graph, const Request& request) {
  const size_t steps = request.mesh.size();
  if (steps < 2 || steps > kRefinedSteps || graph.ops().size() > kCompared) return {};
  const bool has_messages = !edge_walks(graph).empty();
  std::vector<Planner> found;
  for (const Planner planner : all_planners()) {
    if (planner == Planner::kRandom || planner == Planner::kTofu) continue;
    if (planner == Planner::kHomes) continue;  // moves what kFsdp does, most of it of few workers
    const Rules::Messages messages = rules_of(planner).messages;
    if (!has_messages && messages != Rules::Messages::kAny) continue;  // they are data_parallel
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
  std::optional<FoundPlan> least;  ///< the one that exceeds it least, where any was searched
};
using Attempt = std::variant<FoundPlan, NothingFits, IdlePin>;

/// The first pin of which a worker holds nothing. Given parts, those by weights and what is of one
/// worker only may be empty.
std::optional<IdlePin> idle_pin(const Graph& graph, const Request& request, const Plan& plan) {
  if (request.pins.empty()) return std::nullopt;
  const DimClasses classes(graph);
  for (size_t pin = 0; pin < request.pins.size(); ++pin) {
    const ValueId value = request.pins[pin].value;
    const Choices& choices = plan.values[value];
    if (std::any_of(choices.begin(), choices.end(),
                    [](int choice) { return is_only(choice) || weighting_of(choice) != 0; })) {
      continue;
    }
    const std::vector<Grain> grains = classes.grains(value);
    if (std::any_of(grains.begin(), grains.end(), [](const Grain& own) { return own.bounds; })) {
      continue;
    }
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
  const bool may_fit = !request.options.memory_limit || solver.may_fit();
  if (!may_fit && request.pins.empty()) return NothingFits{};
  FoundPlan free = solver.search(request.pins);
  if (auto idle = idle_pin(graph, request, free.plan)) return std::move(*idle);
  if (!may_fit) return NothingFits{};
  if (!request.options.memory_limit || solver.keeps(free)) return free;
  FoundPlan least;
  auto within = solver.within_memory(request.pins, free, &least);
  if (within) return std::move(*within);
  return NothingFits{std::move(least)};
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
  const Request& request = requests[number];
  std::optional<FoundPlan>& least = std::get<NothingFits>(attempts.all[number]).least;
  if (!least) {
    const Solver solver(graph, request);
    least.emplace();
    solver.within_memory(request.pins, solver.search(request.pins), &*least);
  }
  return {number, explained(graph, request, *least), {}};
}

/// The least number of those below `most` for which `holds`, which goes on to; `most` where none
/// is.
template <typename Holds>
size_t least_that(size_t least, size_t most, const Holds& holds) {
  while (least < most) {
    const size_t middle = least + (most - least) / 2;
    if (holds(middle)) {
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  return least;
}

/// Plans that run calls again, the first of what `Reruns` lists.
class Recomputing {
 public:
  /// `free` is the cheapest plan without a limit of the first request.
  Recomputing(const Graph& graph, const std::vector<Request>& requests, const FoundPlan& free,
              Reruns::Choice choice)
      : requests_(requests),
        free_(free),
        reruns_(graph, free.plan, machine(requests.front(), free.plan).get(),
                requests.front().options.views, choice),
        again_(graph),
        regions_(regions_of(graph)) {}

  /// The attempts with as few calls as let a plan fit that is as cheap. Fewer calls make plans
  /// cheaper that are cut as without a limit, and dearer that are cut for it.
  Attempts run() {
    if (reruns_.count() == 0) return {};
    const size_t least = least_that(0, reruns_.count(), [&](size_t count) {
      run_again(count);
      return Solver(again_, requests_.front()).may_fit();
    });
    // Beyond what suffices for the cuts that are best without a limit more calls only cost more.
    size_t most = least_that(least, reruns_.count(), [&](size_t count) {
      run_again(count);
      FoundPlan same;
      same.plan = free_.plan;
      return Solver(again_, requests_.front()).keeps(same);
    });
    run_again(most);
    Attempts found = attempt_all(again_, requests_);
    if (!found.best && most < reruns_.count()) {
      run_again(most = reruns_.count());
      found = attempt_all(again_, requests_);
    }
    regions_ = regions_of(again_);
    if (found.best) take_fewer(std::max<size_t>(least, 1), most, found);
    return found;
  }

  /// What runs again, by op.
  const std::vector<int>& regions() const { return regions_; }
  Graph graph() {
    again_.set_regions(regions_);
    return again_;
  }

 private:
  static std::unique_ptr<Machine> machine(const Request& request, const Plan& plan) {
    if (!request.options.machine) return nullptr;
    return std::make_unique<Machine>(request.options.machine->on(plan.mesh));
  }

  void run_again(size_t count) { again_.set_regions(reruns_.regions(count)); }

  void take_fewer(size_t least, size_t most, Attempts& found) {
    const size_t number = *found.best;
    int left = again_.ops().size() > kCompared * kRefinedSteps ? kFewProbes : kAllProbes;
    least_that(least, most, [&](size_t count) {
      if (--left < 0) return false;
      run_again(count);
      Attempts fewer = attempt_all(again_, {requests_[number]});
      if (!fewer.best || fewer.least > found.least) return false;
      found.all[number] = std::move(fewer.all.front());
      found.least = fewer.least;
      regions_ = regions_of(again_);
      return true;
    });
  }

  static constexpr int kAllProbes = 64, kFewProbes = 1;

  const std::vector<Request>& requests_;
  const FoundPlan& free_;
  const Reruns reruns_;
  Graph again_;
  std::vector<int> regions_;
};

/// What came of running calls again, and which; nothing where there are none.
struct RunAgain {
  Attempts attempts;
  Graph graph;
};

RunAgain recomputing(const Graph& graph, const std::vector<Request>& requests) {
  const FoundPlan free = Solver(graph, requests.front()).search(requests.front().pins);
  RunAgain best;
  for (const Reruns::Choice choice : {Reruns::Choice::kAll, Reruns::Choice::kModules}) {
    Recomputing tried(graph, requests, free, choice);
    Attempts attempts = tried.run();
    const bool better =
        attempts.best && (!best.attempts.best || attempts.least < best.attempts.least);
    if (better || best.attempts.all.empty()) best = {std::move(attempts), tried.graph()};
    // Those of large graphs take long, and whole modules are among all.
    if (graph.ops().size() > kCompared && best.attempts.best) break;
  }
  if (!best.attempts.best) return best;
  const size_t number = *best.attempts.best;
  const Solver solver(graph, requests[number]);
  const double bound =
      number == 0 ? solver.cost(free) : solver.cost(solver.search(requests[number].pins));
  Plan& plan = best.attempts.found(number).plan;
  plan.gap = std::max(plan.gap, best.attempts.least > 0 ? 1 - bound / best.attempts.least : 0.0);
  if (plan.gap > 0) plan.exact = false;
  return best;
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

namespace {

/// The search knows peaks without it, which it leaves as they are.
FoundPlan ready(FoundPlan& found, const SearchOptions& options) {
  if (found.program) overlap(*found.program, options.views);
  return std::move(found);
}

}  // namespace

Outcome best_plan(const Graph& graph, const std::vector<Request>& requests) {
  if (requests.empty()) throw InternalError("search: no plan is asked for");
  Attempts kept = attempt_all(graph, requests);
  const SearchOptions& options = requests.front().options;
  const bool is_limited = kept.best ? kept.found(*kept.best).limited : kept.too_large.has_value();
  if (options.recompute && is_limited && (!kept.best || options.objective == Objective::kTime)) {
    auto [again, other] = recomputing(graph, requests);
    if (again.best && (!kept.best || again.least < kept.least)) {
      return {*again.best, ready(again.found(*again.best), options), regions_of(other)};
    }
    if (!kept.best && again.too_large) return too_large(other, requests, again);
  }
  if (kept.best) {
    FoundPlan& found = kept.found(*kept.best);
    auto quicker = quicker_plan(graph, requests[*kept.best], found);
    return {*kept.best, ready(quicker ? *quicker : found, options), {}};
  }
  if (kept.too_large) return too_large(graph, requests, kept);
  return {0, std::get<IdlePin>(std::move(kept.all.front())), {}};
}

}  // namespace smex
