#include "partition/search/home_memory.h"

#include <gtest/gtest.h>

#include "../graphs.h"
#include "../plans.h"
#include "partition/search/search.h"

namespace smex {
namespace {

TEST(HomeMemory, FindsThePointThatExceedsTheLimitMost) {
  test::Builder b;
  const ValueId x = b.input({4, 6}), w = b.input({6, 5}, Role::kParameter);
  const ValueId made = b.mm(x, w);
  b.output(b.sum_rows(made));
  // The weight lives all the time, the input during the product, the result from it on.
  HomeMemory memory(b.graph, {}, /*optimizer_states=*/1);
  for (const Value& value : b.graph.values()) {
    EXPECT_TRUE(memory.counts(value.id));
    memory.set(value.id, /*group=*/value.id, {10.0 * (1 + value.id), 1.0});
  }
  const auto exceeded = memory.worst({0, 0, 0, 0}, /*limit=*/100);
  ASSERT_TRUE(exceeded) << "2 · 20 and 30 and 40 bytes of the weight and what is made";
  EXPECT_EQ(exceeded->bound, 100);
  EXPECT_EQ(exceeded->weights,
            (std::map<int, std::vector<double>>{{w, {40, 2}}, {made, {30, 1}}, {3, {40, 1}}}));
  EXPECT_EQ(exceeded->sum({0, 0, 0, 0}), 110);
  EXPECT_FALSE(memory.worst({0, 1, 0, 0}, /*limit=*/100)) << "2 and 30 and 40";
  EXPECT_EQ(memory.all(), (std::map<int, std::vector<double>>{
                              {x, {10, 1}}, {w, {40, 2}}, {made, {30, 1}}, {3, {40, 1}}}));
}

TEST(MemoryLimit, IsKeptAtTheLeastCost) {
  for (const Graph& graph : {test::linear_graph(8, 12, 16), test::training_graph(16, 8, 12),
                             test::deep_graph(8, 12, 16)}) {
    SearchOptions options;
    options.replicate_bytes = int64_t{1} << 40;
    options.refine = false;
    const int64_t most = heaviest_point(graph, search(graph, {4}, options)).bytes;
    int64_t cheaper = 0;
    for (const double part : {1.0, 0.8, 0.6, 0.45, 0.35, 0.3}) {
      options.memory_limit = part * static_cast<double>(most);
      const Plan plan = search(graph, {4}, options);
      const bool fits = heaviest_point(graph, plan).bytes <= *options.memory_limit;
      EXPECT_TRUE(plan.exact);
      int64_t best = -1;
      test::for_each_plan(graph, 4, Merge::kGradients, [&](const Plan& other, int64_t bytes) {
        if (heaviest_point(graph, other).bytes > *options.memory_limit) return;
        if (best < 0 || bytes < best) best = bytes;
      });
      EXPECT_EQ(fits, best >= 0);
      if (!fits) continue;
      EXPECT_EQ(plan.step_bytes[0], best) << graph.str() << part;
      EXPECT_GE(best, cheaper);
      cheaper = best;
    }
    EXPECT_GT(cheaper, 0);
  }
}

TEST(MemoryLimit, HasTheOptimiser) {
  const Graph graph = test::training_graph(8, 64, 64);
  SearchOptions options;
  options.replicate_bytes = int64_t{1} << 40;
  options.memory_limit = heaviest_point(graph, search(graph, {4}, options)).bytes;
  EXPECT_EQ(plan_bytes(graph, search(graph, {4}, options)), 0) << "replicas move nothing";
  options.optimizer_states = 2;
  EXPECT_GT(plan_bytes(graph, search(graph, {4}, options)), 0);
}

}  // namespace
}  // namespace smex
