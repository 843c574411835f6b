#include "partition/simulate/list_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "../graphs.h"
#include "../runner.h"
#include "partition/lower/lower.h"
#include "partition/simulate/timeline.h"

namespace smex {
namespace {

Machine machine(size_t steps) {
  return {{{{8, 1e3}}, 1e3, 1e-3}, std::vector<Link>(steps, Link{1e-2, 500, 1})};
}

ListOrder order_of(const Graph& graph, const Plan& plan) {
  const Program program = lower(graph, plan);
  const Machine on = machine(plan.mesh.size());
  return list_order(graph, program, predicted_seconds(program, on, {}), plan.mesh, on);
}

double seconds_of(const Graph& graph, const Plan& plan) {
  const Program program = lower(graph, plan);
  const Machine on = machine(plan.mesh.size());
  return simulate(program, predicted_seconds(program, on, {}), plan.mesh, on).seconds;
}

TEST(ListOrder, IsAnOrderThatRunsAndMovesTheSame) {
  std::mt19937 random(5);
  for (int round = 0; round < 15; ++round) {
    for (const Graph& graph :
         {test::training_graph(9, 6, 5), test::deep_graph(8, 4, 6), test::mixed_graph(7, 5),
          test::layers_graph(5, 4, 6, 2, /*checkpoints=*/true), test::elementwise_graph(random, 12),
          test::messages_graph(random, 11, 5)}) {
      Plan plan = test::random_plan(random, graph, {3});
      const ListOrder found = order_of(graph, plan);
      std::vector<int> sorted = found.positions;
      std::sort(sorted.begin(), sorted.end());
      for (size_t n = 0; n < sorted.size(); ++n) ASSERT_EQ(sorted[n], static_cast<int>(n));
      EXPECT_LE(found.makespan, found.resources * found.least * (1 + 1e-12));
      EXPECT_GE(found.makespan, found.least * (1 - 1e-12));
      plan.order = found.positions;
      const Program program = lower(graph, plan);
      test::Runner(program, random).run();
      EXPECT_EQ(moved_bytes(program, true, true), plan_bytes(graph, plan));
    }
  }
}

TEST(ListOrder, AnyOrderIsMadeOneThatRuns) {
  std::mt19937 random(6);
  for (int round = 0; round < 15; ++round) {
    for (const Graph& graph : {test::training_graph(9, 6, 5), test::deep_graph(8, 4, 6),
                               test::layers_graph(5, 4, 6, 2, /*checkpoints=*/true)}) {
      Plan plan = test::random_plan(random, graph, {2});
      for (size_t n = 0; n < graph.ops().size(); ++n) plan.order.push_back(static_cast<int>(n));
      const Program same = lower(graph, plan);
      std::shuffle(plan.order.begin(), plan.order.end(), random);
      const Program program = lower(graph, plan);
      test::Runner(program, random).run();
      EXPECT_EQ(moved_bytes(program, true, true), moved_bytes(same, true, true));
    }
  }
}

/// A long and a short branch, the short one first in the graph, that meet at the end on two
/// workers.
TEST(ListOrder, LongBranchesGoFirst) {
  test::Builder b;
  const ValueId x = b.input({40, 40});
  ValueId side = x, main = x;
  for (int n = 0; n < 4; ++n) side = b.mm(side, b.input({40, 40}, Role::kParameter));
  for (int n = 0; n < 6; ++n) main = b.mm(main, b.input({40, 40}, Role::kParameter));
  b.output(b.add(main, side));
  Plan plan;
  plan.mesh = {2};
  plan.values.assign(b.graph.values().size(), {only_at(0)});
  plan.ops.assign(b.graph.ops().size(), {only_at(0)});
  // The second half of the long branch is the other worker's.
  for (OpId op = 7; op < 10; ++op) {
    plan.ops[op] = {only_at(1)};
    plan.values[b.graph.op(op).outputs[0]] = {only_at(1)};
  }
  const double before = seconds_of(b.graph, plan);
  plan.order = order_of(b.graph, plan).positions;
  EXPECT_LT(plan.order[4], plan.order[0]);
  EXPECT_LT(seconds_of(b.graph, plan), before);
}

}  // namespace
}  // namespace smex
