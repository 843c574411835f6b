#include "partition/search/recursion/recursion.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "../graphs.h"
#include "partition/price/price.h"
#include "stages.h"

namespace smex {
namespace {

using test::all_cut;

int64_t bytes(const Graph& graph, Plan plan) {
  price(graph, nullptr, plan);
  return std::accumulate(plan.step_bytes.begin(), plan.step_bytes.end(), int64_t{0});
}

TEST(Recursion, AppliesWhatItChooses) {
  const Graph graph = test::training_graph(8, 6, 10);
  const SearchOptions options = all_cut();
  Recursion recursion(graph, nullptr, /*workers=*/4, options, Merge::kGradients);
  for (size_t steps = 1; steps <= 2; ++steps) {
    ASSERT_TRUE(recursion.try_steps({2}));
    const Plan& plan = recursion.plan();
    EXPECT_EQ(plan.mesh, Mesh(steps, 2));
    for (const Choices& choices : plan.values) EXPECT_EQ(choices.size(), steps);
    for (const Choices& choices : plan.ops) EXPECT_EQ(choices.size(), steps);
    EXPECT_EQ(recursion.total(), bytes(graph, plan)) << "the minimum is the plan's price";
    EXPECT_TRUE(plan.exact);
    EXPECT_TRUE(plan.fits);
  }
  for (const GraphOutput& output : graph.outputs()) {
    if (output.target == kNoValue) continue;
    EXPECT_EQ(recursion.plan().values[output.value], recursion.plan().values[output.target])
        << "a gradient is cut as its parameter";
  }
}

TEST(Recursion, ChoosesStepsTogether) {
  const Graph graph = test::training_graph(8, 6, 10);
  const SearchOptions options = all_cut();
  Recursion apart(graph, nullptr, 4, options, Merge::kGradients);
  Recursion together(graph, nullptr, 4, options, Merge::kGradients);
  ASSERT_TRUE(apart.try_steps({2}) && apart.try_steps({2}));
  ASSERT_TRUE(together.try_steps({2, 2}));
  EXPECT_EQ(together.plan().mesh, (Mesh{2, 2}));
  EXPECT_EQ(together.total(), bytes(graph, together.plan()));
  EXPECT_LE(together.total(), apart.total());
}

TEST(Recursion, RefinesUntilNoStepGains) {
  bool gained = false;
  std::mt19937 random(0);
  for (int round = 0; round < 40; ++round) {
    int64_t sizes[3];
    for (int64_t& size : sizes) size = 4 + static_cast<int64_t>(random() % 30);
    const Graph graph = round % 2 ? test::unrolled(2, sizes[0], sizes[1], sizes[2]).graph
                                  : test::deep_graph(sizes[0], sizes[1], sizes[2]);
    const SearchOptions options = all_cut();
    Recursion recursion(graph, nullptr, 8, options, Merge::kGradients);
    for (int step = 0; step < 3; ++step) ASSERT_TRUE(recursion.try_steps({2}));
    const double before = recursion.total();
    recursion.refine();
    EXPECT_LE(recursion.total(), before);
    EXPECT_EQ(recursion.total(), bytes(graph, recursion.plan()));
    gained |= recursion.total() < before;
    const double after = recursion.total();
    const Plan plan = recursion.plan();
    recursion.refine();
    EXPECT_EQ(recursion.total(), after);
    EXPECT_EQ(recursion.plan().values, plan.values);
  }
  EXPECT_TRUE(gained);
}

TEST(Recursion, GivesUpWhereTablesAreTooLarge) {
  const Graph graph = test::deep_graph(8, 8, 8);
  const SearchOptions options = all_cut();
  Recursion recursion(graph, nullptr, 2, options, Merge::kGradients);
  EXPECT_FALSE(recursion.try_steps({2}, /*max_work=*/1));
  EXPECT_FALSE(search_merged(graph, nullptr, {2}, options, Merge::kGradients, /*max_work=*/1));
  EXPECT_TRUE(search_merged(graph, nullptr, {2}, options, Merge::kGradients));
}

TEST(Recursion, KeepsToAMemoryLimitOrSaysSo) {
  const Graph graph = test::training_graph(8, 64, 64);
  SearchOptions options;
  options.replicate_bytes = int64_t{1} << 40;
  const auto searched = [&](double limit) {
    options.memory_limit = limit;
    Recursion recursion(graph, nullptr, 2, options, Merge::kGradients);
    EXPECT_TRUE(recursion.try_steps({2}));
    return recursion.plan();
  };
  const Plan roomy = searched(1e9), tight = searched(40'000), squeezed = searched(1);
  EXPECT_TRUE(roomy.fits);
  EXPECT_TRUE(tight.fits);
  EXPECT_FALSE(squeezed.fits);
  EXPECT_LT(bytes(graph, roomy), bytes(graph, tight));
}

TEST(StepProblem, HasAVariableForAnOpWithTooManyChoices) {
  // Six dimensions of 13 operands' choices would be a table of more than 4096 entries.
  test::Builder b;
  const ValueId x = b.input({6, 6}), y = b.input({6, 6});
  b.output(b.mm(x, y));
  SearchOptions options = all_cut();
  options.replicate_bytes = int64_t{1} << 40;
  const Mesh mesh{2, 2, 2};
  test::Stage stage(b.graph, mesh, options, {/*first=*/0, /*count=*/3});
  const Domains domains = stage.domains();
  const Costs costs(stage.merged, nullptr, 8, stage.grids, stage.plan, stage.steps, domains);
  const OpCosts table = costs.of(stage.merged.ops[0]);
  ASSERT_FALSE(table.by_operand.empty());
  StepProblem problem(stage.merged, domains);
  problem.add(table);
  const FactorGraph& factors = problem.factors();
  ASSERT_EQ(factors.domain_sizes.size(), 4) << "three tensors and the op";
  EXPECT_EQ(factors.domain_sizes.back(), static_cast<int>(table.strategies.size()));
  const Assignment best = minimise(factors);
  EXPECT_EQ(best.value, 0) << "everybody may do everything";
  EXPECT_EQ(problem.strategy(0, best).choices, table.strategies[best.choices[3]].choices);
}

}  // namespace
}  // namespace smex
