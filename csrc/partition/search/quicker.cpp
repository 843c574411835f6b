#include "partition/search/quicker.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "partition/lower/lower.h"
#include "partition/lower/overlap.h"
#include "partition/price/price.h"
#include "partition/search/parallel.h"
#include "partition/simulate/timeline.h"
#include "partition/vertices/boundaries.h"

namespace smex {
namespace {

constexpr std::array<double, 2> kFaster{1.5, 4};  ///< as if a third, or most, was hidden
constexpr size_t kCalls = 5000;
constexpr int kWorkers = 16;
constexpr double kGain = 0.99;  ///< of the course's time, for another plan to be worth it

bool hides(const Machine& machine) {
  return std::any_of(machine.links.begin(), machine.links.end(),
                     [](const Link& link) { return link.overlap > 0; });
}

Request with_faster_links(const Request& request, double factor) {
  Request faster = request;
  Cluster& cluster = *faster.options.machine;
  const auto speed_up = [&](Link& link) {
    link.bandwidth *= factor;
    link.latency /= factor;
  };
  for (Level& level : cluster.levels) speed_up(level.link);
  if (cluster.unlike) {
    Unlike unlike = *cluster.unlike;
    for (auto& senders : unlike.links) std::for_each(senders.begin(), senders.end(), speed_up);
    cluster.unlike = std::make_shared<const Unlike>(std::move(unlike));
  }
  return faster;
}

/// What is searched beside the request.
std::vector<Request> alternatives(const Graph& graph, const Request& request,
                                  const Machine& machine) {
  std::vector<Request> found;
  if (hides(machine)) {
    for (const double factor : kFaster) found.push_back(with_faster_links(request, factor));
  }
  const bool has_messages = !edge_walks(graph).empty();
  if (has_messages && request.options.planner == Planner::kTofu) {
    for (const Planner planner : {Planner::kVertices, Planner::kFeatures}) {
      for (const Objective objective : {Objective::kTime, Objective::kCommunication}) {
        found.push_back(request);
        SearchOptions& options = found.back().options;
        options.planner = planner;
        options.objective = objective;
        // Of the fewest bytes that move, and as few that each worker copies of its own.
        const int64_t few = SearchOptions{}.replicate_bytes;
        if (objective == Objective::kCommunication) {
          options.replicate_bytes = std::min(few, options.replicate_bytes);
        }
      }
    }
  }
  return found;
}

/// Of the program that is there, or of one that is made for it.
double course(const Graph& graph, const FoundPlan& found, const Request& request,
              const Machine& machine) {
  const auto& views = request.options.views;
  Program program = found.program ? *found.program : lower(graph, found.plan, {views, true, false});
  overlap(program, views);
  return simulate(program, predicted_seconds(program, machine, views), request.mesh, machine)
      .seconds;
}

bool are_equal(const Plan& a, const Plan& b) {
  return a.values == b.values && a.ops == b.ops && a.by_peer == b.by_peer;
}

}  // namespace

std::optional<FoundPlan> quicker_plan(const Graph& graph, const Request& request,
                                      const FoundPlan& found) {
  const SearchOptions& options = request.options;
  if (options.objective != Objective::kTime || !options.machine) return std::nullopt;
  const Machine machine = options.machine->on(request.mesh);
  const int workers = mesh_size(request.mesh);
  if (workers < 2 || workers > kWorkers || graph.ops().size() > kCalls) return std::nullopt;
  const std::vector<Request> requests = alternatives(graph, request, machine);
  if (requests.empty()) return std::nullopt;
  const Solver solver(graph, request);
  std::vector<FoundPlan> others(requests.size());
  for_all(others.size(), [&](size_t n) {
    others[n] = Solver(graph, requests[n]).search(request.pins);
    price(graph, &machine, others[n].plan);
  });
  std::vector<double> seconds(1 + others.size(), std::numeric_limits<double>::infinity());
  for_all(seconds.size(), [&](size_t n) {
    if (n == 0) {
      seconds[n] = course(graph, found, request, machine);
      return;
    }
    FoundPlan& other = others[n - 1];
    const bool is_known =
        are_equal(other.plan, found.plan) ||
        std::any_of(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(n) - 1,
                    [&](const FoundPlan& known) { return are_equal(other.plan, known.plan); });
    if (is_known || (options.memory_limit && !solver.keeps(other))) return;
    seconds[n] = course(graph, other, request, machine);
  });
  const auto best = std::min_element(seconds.begin() + 1, seconds.end());
  if (*best >= kGain * seconds[0]) return std::nullopt;
  FoundPlan& quicker = others[best - seconds.begin() - 1];
  const double cost = solver.cost(quicker);
  quicker.plan.exact = false;  // the least sum is another's
  quicker.plan.gap = std::max(found.plan.gap, cost > 0 ? 1 - solver.cost(found) / cost : 0.0);
  return std::move(quicker);
}

}  // namespace smex
