#include "partition/search/within_memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "../graphs.h"
#include "partition/lower/lower.h"
#include "partition/lower/residency.h"
#include "partition/price/memory.h"
#include "stages.h"

namespace smex {
namespace {

/// Two layers and their loss, which move nothing where memory is free: everything may be
/// replicated.
Request asked(Mesh mesh) {
  Request request{std::move(mesh), {}, {}, {}};
  request.options.replicate_bytes = kAllBytes;
  request.options.memory_limit = 1e9;
  return request;
}

double fullest(const Graph& graph, const Plan& plan) {
  const std::vector<int64_t> peaks = peak_bytes(lower(graph, plan), {});
  return static_cast<double>(*std::max_element(peaks.begin(), peaks.end()));
}

TEST(Solver, PeakIsThatOfTheProgramAndTheOptimiser) {
  const Graph graph = test::training_graph(8, 64, 32);
  Request request = asked({2});
  FoundPlan found = Solver(graph, request).search({});
  EXPECT_EQ(Solver(graph, request).peak(found), fullest(graph, found.plan));
  ASSERT_TRUE(found.program);
  EXPECT_EQ(found.peak_bytes, peak_bytes(*found.program, {}));
  request.options.optimizer_states = 2;
  FoundPlan with_states = Solver(graph, request).search({});
  EXPECT_EQ(parameter_bytes(graph, with_states.plan), 64 * 32 * 4) << "replicated";
  EXPECT_EQ(Solver(graph, request).peak(with_states),
            fullest(graph, with_states.plan) + 2 * 64 * 32 * 4);
}

TEST(Solver, PinsAndShardsAreKept) {
  const Graph graph = test::training_graph(8, 64, 32);
  Request request = asked({2});
  EXPECT_EQ(Solver(graph, request).search({{1, {0}}}).plan.values[1], Choices{0});
  const auto tile = [](int64_t lo, int64_t hi) { return Tile{true, Region{{{lo, hi}, {0, 64}}}}; };
  request.shards[1] = {{0}, {tile(0, 20), tile(20, 32)}};
  const Plan plan = Solver(graph, request).search({{1, {1}}}).plan;
  EXPECT_EQ(plan.values[1], Choices{0}) << "what exists already comes before a pin";
  EXPECT_EQ(plan.shards.at(1).front().region.dims[0].size(), 20);
}

TEST(WithinMemory, KeepsThePredictedPeak) {
  for (const Mesh& mesh : {Mesh{4}, Mesh{2, 2}}) {
    const Graph graph = test::deep_graph(16, 64, 32);
    Request request = asked(mesh);
    FoundPlan free = Solver(graph, request).search({});
    const double most = Solver(graph, request).peak(free);
    double cheaper = 0;
    for (const double part : {0.9, 0.7, 0.5}) {
      request.options.memory_limit = part * most;
      const Solver solver(graph, request);
      ASSERT_FALSE(solver.keeps(free));
      auto found = solver.within_memory({}, free);
      ASSERT_TRUE(found) << part;
      EXPECT_TRUE(solver.fits({}));
      EXPECT_LE(fullest(graph, found->plan), part * most);
      EXPECT_GE(solver.cost(*found), cheaper) << "less memory is never cheaper";
      cheaper = solver.cost(*found);
    }
    EXPECT_GT(cheaper, 0);
  }
}

TEST(WithinMemory, SaysHowFarAPlanIsFromTheCheapest) {
  const Graph graph = test::deep_graph(16, 64, 32);
  Request request = asked({2, 2});
  FoundPlan free = Solver(graph, request).search({});
  request.options.memory_limit = 0.5 * Solver(graph, request).peak(free);
  const Solver solver(graph, request);
  const auto found = solver.within_memory({}, free);
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->plan.exact) << "of several steps nothing is proven";
  EXPECT_DOUBLE_EQ(found->plan.gap, 1 - solver.cost(free) / solver.cost(*found));
}

TEST(WithinMemory, GivesTheSmallestPlanWhereNothingFits) {
  const Graph graph = test::deep_graph(16, 64, 32);
  Request request = asked({2, 2});
  FoundPlan free = Solver(graph, request).search({});
  request.options.memory_limit = 100;
  const Solver solver(graph, request);
  FoundPlan least;
  EXPECT_FALSE(solver.within_memory({}, free, &least));
  EXPECT_FALSE(solver.fits({}));
  EXPECT_GT(solver.peak(least), 100);
  EXPECT_LT(solver.peak(least), solver.peak(free));
}

}  // namespace
}  // namespace smex
