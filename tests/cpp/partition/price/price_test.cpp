#include "partition/price/price.h"

#include <gtest/gtest.h>

#include <cmath>
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
    const Machine on{{{{4, 50}}, 200, 0.1}, {{0, first}, {0, second}}};
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
    const Machine on{{{{4, flops}}, bandwidth, launch}, {}};
    return on.compute(graph, product, grids.make(product, {}, {}), {}, 1);
  };
  EXPECT_DOUBLE_EQ(takes(1, 1e9, 1e-9), 2 * 4 * 6 * 10);
  EXPECT_DOUBLE_EQ(takes(1e9, 1, 1e-9), 4 * (40 + 60 + 24));
  EXPECT_DOUBLE_EQ(takes(1e9, 1e9, 3), 3);
  const Machine narrow{{{{2, 1}}, 1, 1}, {}};
  EXPECT_THROW(narrow.compute(graph, product, grids.make(product, {}, {}), {}, 1), UserError);
}

TEST(CallCost, IsTheSumOfWhatACallDoes) {
  const CallWork work{.operations = 10, .bytes = 100, .gathered = 5, .fresh = 2};
  const CallCost cost{1, 2, 3, 4, 5};
  EXPECT_DOUBLE_EQ(cost.seconds(work), 1 + 20 + 300 + 20 + 10);
}

TEST(CallCost, IsWhatWasMeasuredAtMeasuredSizes) {
  CallCost cost{0, 0, 1, 0, 0};
  cost.measured = {{{.bytes = 1e3}, 2.0}, {{.bytes = 1e6}, 8.0}};
  EXPECT_NEAR(cost.seconds({.bytes = 1e3}), 2e3, 1);
  EXPECT_NEAR(cost.seconds({.bytes = 1e6}), 8e6, 1e3);
  // Half way between the logarithms of both.
  EXPECT_NEAR(cost.seconds({.bytes = std::sqrt(1e9)}), 4 * std::sqrt(1e9), 1e2);
  // Far outside the factors of all go into a mean, which is none of a line's.
  const double far = cost.seconds({.bytes = 1e30}) / 1e30;
  EXPECT_GT(far, 2);
  EXPECT_LT(far, 8);
}

TEST(CallCost, LargeResultsHaveFreshMemory) {
  CallWork work;
  work.add_operand(3e6);
  work.add_result(1 << 20, 8);
  work.add_result(100, 4);
  EXPECT_DOUBLE_EQ(work.bytes, 3e6 + (1 << 20) + 100);
  EXPECT_DOUBLE_EQ(work.fresh, 1 << 19);
  EXPECT_EQ(work.itemsize, 4);
}

TEST(CallCost, OfTheKindCountsBeforeThatOfTheOperator) {
  const CallCosts costs{{"aten::mm [4, 6]", {{4, {1}}}}, {"aten::mm", {{4, {2}}, {8, {3}}}}};
  EXPECT_EQ(find_cost(costs, "aten::mm [4, 6]", "aten::mm", 4)->call, 1);
  EXPECT_EQ(find_cost(costs, "aten::mm [4, 7]", "aten::mm", 4)->call, 2);
  EXPECT_EQ(find_cost(costs, "aten::mm [4, 6]", "aten::mm", 8)->call, 3);
  EXPECT_EQ(find_cost(costs, "aten::mm [4, 6]", "aten::mm", 2), nullptr);
  EXPECT_EQ(find_cost(costs, "aten::relu [4]", "aten::relu", 4), nullptr);
}

TEST(Machine, TakesWhatCallsWereMeasuredToTake) {
  const Graph graph = test::linear_graph(4, 6, 10);
  const DimClasses classes(graph);
  OpGrids grids(graph, classes);
  const Op& product = graph.op(0);
  Machine on{{{{4, 10}}, 1e9, 0}, {}};
  const double roofline = on.compute(graph, product, grids.make(product, {}, {}), {}, 1);
  on.device.calls[product.target][4] = {1000};
  EXPECT_DOUBLE_EQ(on.compute(graph, product, grids.make(product, {}, {}), {}, 1), 1000);
  on.device.calls[call_kind(graph, product)][4] = {2000};
  EXPECT_DOUBLE_EQ(on.compute(graph, product, grids.make(product, {}, {}), {}, 1), 2000);
  on.device.calls = {{product.target, {{8, {1000}}}}};
  EXPECT_DOUBLE_EQ(on.compute(graph, product, grids.make(product, {}, {}), {}, 1), roofline);
}

}  // namespace
}  // namespace smex
