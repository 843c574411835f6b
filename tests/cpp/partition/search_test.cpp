#include "partition/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "graphs.h"
#include "ir/error.h"
#include "partition/coarsen.h"

namespace smex {
namespace {

/// No tensor is so small that it may be replicated: every plan of the small graphs moves bytes.
SearchOptions all_cut(const std::string& planner = "tofu") {
  SearchOptions options;
  options.replicate_bytes = 0;
  options.planner = planner;
  return options;
}

/// Cuts that leave no part empty; replication where there is none.
std::vector<int> cuts_of(const DimClasses& classes, const Value& value, int workers) {
  std::vector<int> cuts;
  for (size_t d = 0; d < value.shape.size(); ++d) {
    if (value.shape[d] / classes.granule(value.id, d) >= workers) {
      cuts.push_back(static_cast<int>(d));
    }
  }
  if (cuts.empty()) cuts.push_back(kReplicate);
  return cuts;
}

/// The op's cheapest strategy under the plan's cuts. Repeating it on every worker is one only for
/// data movement, and where nothing can be split.
int64_t best_strategy(const Graph& graph, const DimClasses& classes, Plan& plan, OpId id) {
  const Op& op = graph.op(id);
  std::vector<int> strategies;
  for (const tdl::Split& split : tdl::derive_splits(*op.spec)) {
    const int64_t granule = std::max(split.granule, classes.granule(op, split.index));
    if (op.spec->indices[split.index].extent / granule >= plan.mesh[0]) {
      strategies.push_back(split.index);
    }
  }
  if (strategies.empty() || is_data_movement(*op.spec)) strategies.push_back(kReplicate);
  int64_t best = std::numeric_limits<int64_t>::max();
  for (int strategy : strategies) {
    plan.ops[id] = {strategy};
    best = std::min(best, op_bytes(graph, classes, plan, id));
  }
  return best;
}

/// The cheapest plan among all cuts of every coarse group and all strategies of every op.
int64_t brute_force(const Graph& graph, int workers) {
  const CoarseGraph coarse = coarsen(graph);
  const DimClasses classes(graph);
  Plan plan;
  plan.mesh = {workers};
  plan.values.assign(graph.values().size(), {kReplicate});
  plan.ops.assign(graph.ops().size(), {kReplicate});
  std::vector<std::vector<int>> domains;
  for (const auto& group : coarse.groups) {
    domains.push_back(cuts_of(classes, graph.value(group.front()), workers));
  }
  std::vector<size_t> choice(domains.size(), 0);
  int64_t best = std::numeric_limits<int64_t>::max();
  while (true) {
    for (const Value& value : graph.values()) {
      const int group = coarse.group_of[value.id];
      plan.values[value.id] = {domains[group][choice[group]]};
    }
    int64_t bytes = 0;
    for (const Op& op : graph.ops()) bytes += best_strategy(graph, classes, plan, op.id);
    best = std::min(best, bytes);
    size_t g = 0;
    while (g < choice.size() && ++choice[g] == domains[g].size()) choice[g++] = 0;
    if (g == choice.size()) return best;
  }
}

std::vector<Graph> graphs() {
  return {test::linear_graph(12, 6, 9), test::linear_graph(4, 18, 6), test::training_graph(6, 9, 4),
          test::mixed_graph(6, 5), test::deep_graph(7, 6, 5)};
}

class Search : public testing::TestWithParam<int> {};

TEST_P(Search, CostEqualsBruteForce) {
  for (const Graph& graph : graphs()) {
    const Plan plan = search(graph, {GetParam()}, all_cut());
    const int64_t bytes = plan_bytes(graph, plan);
    EXPECT_TRUE(plan.exact);
    EXPECT_GT(bytes, 0) << graph.str();
    EXPECT_EQ(bytes, brute_force(graph, GetParam())) << graph.str();
    EXPECT_EQ(plan.step_bytes, std::vector<int64_t>{bytes}) << graph.str();
  }
}

TEST_P(Search, NeverWorseThanCuttingDimensionZero) {
  bool cheaper = false;
  for (const Graph& graph : graphs()) {
    // all_row holds whole what it cannot cut along dimension 0, which the search may not.
    for (const Value& value : graph.values()) {
      ASSERT_TRUE(value.shape.empty() || value.shape[0] >= GetParam());
    }
    const int64_t bytes = plan_bytes(graph, search(graph, {GetParam()}, all_cut()));
    const int64_t by_rows = plan_bytes(graph, search(graph, {GetParam()}, all_cut("all_row")));
    EXPECT_LE(bytes, by_rows) << graph.str();
    cheaper |= bytes < by_rows;
  }
  EXPECT_TRUE(cheaper);
}

TEST_P(Search, IsDeterministic) {
  for (const Graph& graph : graphs()) {
    const Plan a = search(graph, {GetParam(), 2}, all_cut());
    const Plan b = search(graph, {GetParam(), 2}, all_cut());
    EXPECT_GT(plan_bytes(graph, a), 0);
    EXPECT_EQ(a.values, b.values);
    EXPECT_EQ(a.ops, b.ops);
    EXPECT_EQ(a.step_bytes, b.step_bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, Search, testing::Values(2, 3));

TEST(SearchOptions, PinnedValuesKeepTheirCut) {
  SearchOptions options;
  options.pinned = {{1, {1, 0}}};
  EXPECT_EQ(search(test::linear_graph(12, 6, 8), {2, 2}, options).values[1], (Choices{1, 0}));
}

TEST(SearchOptions, AnUnknownPlannerIsAUserError) {
  SearchOptions options;
  options.planner = "greedy";
  EXPECT_THROW(search(test::linear_graph(2, 2, 2), {2}, options), UserError);
}

TEST(Factorise, GivesDescendingPrimes) {
  EXPECT_EQ(factorise(1), Mesh{});
  EXPECT_EQ(factorise(7), (Mesh{7}));
  EXPECT_EQ(factorise(12), (Mesh{3, 2, 2}));
  EXPECT_THROW(factorise(0), UserError);
}

}  // namespace
}  // namespace smex
