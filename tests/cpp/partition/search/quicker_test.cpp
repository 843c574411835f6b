#include "partition/search/quicker.h"

#include <gtest/gtest.h>

#include "../graphs.h"
#include "partition/lower/lower.h"
#include "partition/price/price.h"
#include "partition/simulate/timeline.h"

namespace smex {
namespace {

Request asked(double bandwidth, double overlap) {
  Request request{{2}, {}, {}, {}};
  request.options.replicate_bytes = kAllBytes;
  request.options.objective = Objective::kTime;
  request.options.machine =
      Cluster{"two", {{{4, 1e6}}, 1e6, 1e-4}, {{2, {1e-4, bandwidth, overlap}}}};
  return request;
}

FoundPlan searched(const Graph& graph, const Request& request) {
  FoundPlan found = Solver(graph, request).search({});
  const Machine machine = request.options.machine->on(request.mesh);
  price(graph, &machine, found.plan);
  return found;
}

double course(const Graph& graph, const Plan& plan, const Request& request) {
  const Machine machine = request.options.machine->on(request.mesh);
  const Program program = lower(graph, plan);
  return simulate(program, predicted_seconds(program, machine, {}), request.mesh, machine).seconds;
}

std::vector<Graph> graphs() {
  return {test::layers_graph(64, 32, 32, 6, false), test::layers_graph(16, 64, 64, 6, false),
          test::layers_graph(32, 16, 64, 8, false)};
}

constexpr double kBandwidths[]{2e4, 4e4, 6e4, 8e4, 1e5, 1.3e5, 1.6e5, 2e5, 3e5};

TEST(QuickerPlan, EndsSoonerThoughItsSumIsLonger) {
  int changed = 0;
  for (const Graph& graph : graphs()) {
    for (const double bandwidth : kBandwidths) {
      const Request request = asked(bandwidth, 1);
      const FoundPlan found = searched(graph, request);
      const auto quicker = quicker_plan(graph, request, found);
      if (!quicker) continue;
      ++changed;
      EXPECT_LT(course(graph, quicker->plan, request), course(graph, found.plan, request));
      const Solver solver(graph, request);
      EXPECT_GE(solver.cost(*quicker), solver.cost(found));
      EXPECT_FALSE(quicker->plan.exact);
      EXPECT_GE(quicker->plan.gap, found.plan.gap);
    }
  }
  EXPECT_GT(changed, 0);
}

TEST(QuickerPlan, KeepsToTheMemoryLimit) {
  int changed = 0;
  for (const Graph& graph : graphs()) {
    for (const double bandwidth : kBandwidths) {
      Request request = asked(bandwidth, 1);
      FoundPlan found = searched(graph, request);
      request.options.memory_limit = Solver(graph, request).peak(found);
      auto quicker = quicker_plan(graph, request, found);
      if (!quicker) continue;
      ++changed;
      EXPECT_LE(Solver(graph, request).peak(*quicker), *request.options.memory_limit);
    }
  }
  EXPECT_GT(changed, 0);
}

TEST(QuickerPlan, IsNotLookedForWhereNothingCanBeHidden) {
  for (const Graph& graph : graphs()) {
    for (const double bandwidth : kBandwidths) {
      const Request none = asked(bandwidth, 0);
      EXPECT_FALSE(quicker_plan(graph, none, searched(graph, none)));
      Request bytes = asked(bandwidth, 1);
      bytes.options.objective = Objective::kCommunication;
      EXPECT_FALSE(quicker_plan(graph, bytes, searched(graph, bytes)));
      Request one = asked(bandwidth, 1);
      one.mesh = {};
      EXPECT_FALSE(quicker_plan(graph, one, searched(graph, one)));
    }
  }
}

}  // namespace
}  // namespace smex
