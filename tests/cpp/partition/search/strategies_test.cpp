#include "partition/search/strategies.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "../graphs.h"
#include "ir/error.h"
#include "partition/lower/lower.h"
#include "partition/lower/residency.h"
#include "partition/price/memory.h"
#include "partition/search/search.h"
#include "partition/simulate/seconds.h"
#include "partition/simulate/timeline.h"

namespace smex {
namespace {

Machine two_workers() {
  Device device;
  device.flops = {{4, 1e9}, {8, 1e9}};
  device.memory_bandwidth = 1e9;
  return {device, {{1e-6, 1e8, 1.0}}};
}

Strategies strategies_of(const Graph& graph, std::vector<int> group_of) {
  SearchOptions options;
  options.planner = Planner::kHomes;
  options.replicate_bytes = int64_t{1} << 62;
  const Plan base = search(graph, {2}, options);
  return {
      graph,         {base}, {{0, 0}, {1, 0}, {-1, 0, true}, {-1, 0, false}}, std::move(group_of),
      two_workers(), {}};
}

TEST(Strategies, TakeWhatTheirPlansAreSimulatedToTake) {
  std::mt19937 random(11);
  const Graph graph = test::training_graph(9, 6, 5);
  std::vector<int> group_of(graph.ops().size());
  for (size_t op = 0; op < group_of.size(); ++op) group_of[op] = static_cast<int>(op % 4);
  const Strategies strategies = strategies_of(graph, group_of);
  std::vector<std::vector<int>> drawn;
  for (int n = 0; n < 12; ++n) {
    auto& one = drawn.emplace_back();
    for (int group = 0; group < 4; ++group) one.push_back(static_cast<int>(random() % 4));
  }
  const std::vector<Evaluation> found = strategies.evaluate(drawn);
  ASSERT_EQ(found.size(), drawn.size());
  for (size_t n = 0; n < drawn.size(); ++n) {
    const Plan plan = strategies.plan(drawn[n]);
    const Program program = lower(graph, plan);
    const Machine machine = two_workers();
    const InstrSeconds seconds = predicted_seconds(program, machine, {});
    const Timeline timeline = simulate(program, seconds, plan.mesh, machine);
    EXPECT_EQ(found[n].seconds, timeline.seconds);
    EXPECT_EQ(found[n].peak_bytes, peak_bytes(program, {}));
    EXPECT_EQ(found[n].parameter_bytes, parameter_bytes_by_worker(graph, plan));
    const auto& critical = found[n].critical;
    const double sum = std::accumulate(critical.begin(), critical.end(), 0.0);
    EXPECT_GT(sum, 0.5 * timeline.seconds);
    EXPECT_LE(sum, (1 + 1e-12) * timeline.seconds);
  }
}

TEST(Strategies, OfOneWorkerSpendAllOnCalls) {
  const Graph graph = test::training_graph(8, 6, 4);
  std::vector<int> own(graph.ops().size());
  std::iota(own.begin(), own.end(), 0);
  const Strategies strategies = strategies_of(graph, own);
  const Evaluation found = strategies.evaluate({std::vector<int>(own.size(), 1)}).front();
  const double sum = std::accumulate(found.critical.begin(), found.critical.end(), 0.0);
  EXPECT_NEAR(sum, found.seconds, 1e-12);
  EXPECT_EQ(found.parameter_bytes[0], 0);
}

TEST(Strategies, RefuseWhatIsNoAction) {
  const Graph graph = test::training_graph(8, 6, 4);
  const std::vector<int> one(graph.ops().size(), 0);
  const Strategies strategies = strategies_of(graph, one);
  EXPECT_THROW(strategies.plan({}), InternalError);
  EXPECT_THROW(strategies.plan({4}), InternalError);
  EXPECT_THROW(strategies.evaluate({{0}, {-1}}), InternalError);
  EXPECT_TRUE(strategies.evaluate({}).empty());
  EXPECT_THROW(strategies_of(graph, {0}), InternalError);
}

}  // namespace
}  // namespace smex
