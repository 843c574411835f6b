#include "partition/price/price.h"

#include <gtest/gtest.h>

#include <random>

#include "../graphs.h"
#include "ir/error.h"

namespace smex {
namespace {

std::vector<Graph> graphs() {
  return {test::linear_graph(12, 6, 9),  test::linear_graph(4, 18, 6),
          test::training_graph(6, 9, 4), test::mixed_graph(6, 5),
          test::deep_graph(7, 6, 5),     test::layers_graph(6, 4, 9, 2, /*checkpoints=*/true)};
}

TEST(Price, IsThatOfAnyPlan) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    for (const Graph& graph : graphs()) {
      Plan plan = test::random_plan(random, graph, {3, 2});
      price(graph, nullptr, plan);
      EXPECT_EQ(plan.step_bytes[0] + plan.step_bytes[1], plan_bytes(graph, plan));
      EXPECT_TRUE(plan.step_seconds.empty());
      Plan coarser = plan;
      coarser.mesh = {3};
      for (Choices& choices : coarser.values) choices.pop_back();
      for (Choices& choices : coarser.ops) choices.pop_back();
      EXPECT_EQ(plan.step_bytes[0], plan_bytes(graph, coarser));
    }
  }
}

TEST(Price, TakesTheLinkOfEachStep) {
  std::mt19937 random(4);
  const Graph graph = test::training_graph(8, 8, 8);
  const Plan plan = test::random_plan(random, graph, {2, 2});
  const auto timed = [&](double first, double second) {
    const Machine on{{{4, 50}}, 200, 0.1, {{0, first}, {0, second}}};
    Plan copy = plan;
    price(graph, &on, copy);
    return copy;
  };
  const Plan one = timed(10, 10), slow = timed(5, 10);
  ASSERT_GT(one.step_seconds[0], 0);
  EXPECT_DOUBLE_EQ(slow.step_seconds[0], 2 * one.step_seconds[0]);
  EXPECT_DOUBLE_EQ(slow.step_seconds[1], one.step_seconds[1]);
  EXPECT_DOUBLE_EQ(one.step_seconds[0], static_cast<double>(one.step_bytes[0]) / 4 / 10);
}

TEST(Machine, TakesTheLongestOfKernelArithmeticAndBytes) {
  const Graph graph = test::linear_graph(4, 6, 10);
  const DimClasses classes(graph);
  OpGrids grids(graph, classes);
  const Op& product = graph.op(0);
  const auto takes = [&](double flops, double bandwidth, double launch) {
    const Machine on{{{4, flops}}, bandwidth, launch, {}};
    return on.compute(graph, product, grids.make(product, {}, {}));
  };
  EXPECT_DOUBLE_EQ(takes(1, 1e9, 1e-9), 2 * 4 * 6 * 10);
  EXPECT_DOUBLE_EQ(takes(1e9, 1, 1e-9), 4 * (40 + 60 + 24));
  EXPECT_DOUBLE_EQ(takes(1e9, 1e9, 3), 3);
  const Machine narrow{{{2, 1}}, 1, 1, {}};
  EXPECT_THROW(narrow.compute(graph, product, grids.make(product, {}, {})), UserError);
}

}  // namespace
}  // namespace smex
