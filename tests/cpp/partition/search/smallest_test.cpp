#include "partition/search/smallest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>

#include "../graphs.h"
#include "../plans.h"
#include "partition/plan/dim_classes.h"
#include "partition/plan/grid.h"
#include "partition/price/price.h"
#include "partition/search/search.h"

namespace smex {
namespace {

/// Calls `visit` with every assignment.
template <typename Visit>
void for_each_assignment(const FactorGraph& graph, const Visit& visit) {
  std::vector<int> choices(graph.domain_sizes.size(), 0);
  while (true) {
    visit(choices);
    size_t v = 0;
    while (v < choices.size() && ++choices[v] == graph.domain_sizes[v]) choices[v++] = 0;
    if (v == choices.size()) return;
  }
}

/// Few different costs, so that many assignments cost the same.
FactorGraph random_graph(std::mt19937& random, size_t variables) {
  FactorGraph graph;
  for (size_t v = 0; v < variables; ++v) graph.domain_sizes.push_back(1 + random() % 3);
  for (size_t f = 0; f < variables; ++f) {
    std::set<int> scope;
    for (size_t n = 0; n < 1 + random() % 3; ++n)
      scope.insert(static_cast<int>(random() % variables));
    Factor factor{{scope.begin(), scope.end()}, {}};
    std::shuffle(factor.variables.begin(), factor.variables.end(), random);
    size_t entries = 1;
    for (int variable : factor.variables) entries *= graph.domain_sizes[variable];
    for (size_t n = 0; n < entries; ++n) factor.table.push_back(static_cast<double>(random() % 2));
    graph.factors.push_back(std::move(factor));
  }
  return graph;
}

TEST(Optima, AreAllAssignmentsOfTheLeastValue) {
  std::mt19937 random(3);
  int several = 0;
  for (int round = 0; round < 300; ++round) {
    const FactorGraph graph = random_graph(random, 1 + round % 7);
    Optima optima;
    const Assignment found = minimise(graph, int64_t{1} << 22, &optima);
    std::set<std::vector<int>> wanted, had;
    for_each_assignment(graph, [&](const std::vector<int>& choices) {
      if (value_of(graph, choices) == found.value) wanted.insert(choices);
    });
    for_each_assignment(optima.graph, [&](const std::vector<int>& open) {
      if (value_of(optima.graph, open) >= kForbidden) return;
      std::vector<int> choices = found.choices;
      for (size_t n = 0; n < open.size(); ++n) {
        choices[optima.open[n]] = optima.choices[n][open[n]];
      }
      had.insert(choices);
    });
    EXPECT_EQ(had, wanted) << "round " << round;
    several += wanted.size() > 1;
  }
  EXPECT_GT(several, 100);
}

TEST(Optima, HaveWhatIsEqualButForRounding) {
  FactorGraph graph;
  graph.domain_sizes = {3};
  graph.factors = {{{0}, {0.1 + 0.2, 0.3, 0.3001}}};
  Optima exact, rounded;
  minimise(graph, int64_t{1} << 22, &exact);
  minimise(graph, int64_t{1} << 22, &rounded, /*tolerance=*/1e-12);
  EXPECT_TRUE(exact.open.empty());
  EXPECT_EQ(rounded.choices, (std::vector<std::vector<int>>{{0, 1}}));
}

TEST(Optima, OfManyThatDependOnEachOtherAreSome) {
  // One variable that costs nothing where it is the parity of twenty others, else 1.
  constexpr int kOthers = 20;
  FactorGraph graph;
  graph.domain_sizes.assign(kOthers + 1, 2);
  Factor factor;
  for (int v = 0; v <= kOthers; ++v) factor.variables.push_back(v);
  for (uint32_t place = 0; place < uint32_t{1} << (kOthers + 1); ++place) {
    factor.table.push_back(__builtin_popcount(place) % 2);
  }
  graph.factors.push_back(std::move(factor));
  Optima optima;
  const Assignment found = minimise(graph, int64_t{1} << 22, &optima);
  EXPECT_EQ(found.value, 0);
  int had = 0;
  std::mt19937 random(0);
  for (int round = 0; round < 1000; ++round) {
    std::vector<int> choices = found.choices, open;
    for (size_t n = 0; n < optima.open.size(); ++n) {
      open.push_back(static_cast<int>(random() % optima.choices[n].size()));
      choices[optima.open[n]] = optima.choices[n][open[n]];
    }
    if (value_of(optima.graph, open) >= kForbidden) continue;
    ++had;
    EXPECT_EQ(value_of(graph, choices), 0);
  }
  if (!optima.open.empty()) {
    const Assignment one = minimise(optima.graph);
    EXPECT_LT(one.value, kForbidden);
  }
}

/// Bytes at the fullest point and of the largest tiles of all values.
HomeSize size_of(const Graph& graph, const Plan& plan) {
  const DimClasses classes(graph);
  HomeSize size;
  size.peak = static_cast<double>(heaviest_point(graph, plan).bytes);
  for (const Value& value : graph.values()) {
    const Grid home =
        home_grid(value.shape, classes.grains(value.id), plan.values[value.id], plan.mesh);
    size.tiles += static_cast<double>(largest_numel(home) * value.itemsize);
  }
  return size;
}

/// A graph of a few products, sums and transposes of tensors of uneven sizes.
Graph random_program(std::mt19937& random) {
  test::Builder b;
  const int64_t sizes[] = {5, 6, 7, 9};
  const int64_t n = sizes[random() % 4];
  std::vector<ValueId> known{b.input({n, n}), b.input({n, n}, Role::kParameter)};
  const auto pick = [&] { return known[random() % known.size()]; };
  const int ops = 2 + static_cast<int>(random() % 3);
  for (int op = 0; op < ops; ++op) {
    const ValueId first = pick(), second = pick();
    switch (random() % 4) {
      case 0:
        known.push_back(b.transpose(first));
        break;
      case 1:
        known.push_back(b.mm(first, second));
        break;
      default:
        known.push_back(b.add(first, second));
    }
  }
  b.output(b.sum_rows(known.back()));
  return std::move(b.graph);
}

class SmallestFor : public testing::TestWithParam<int> {};

TEST_P(SmallestFor, OfTheCheapestPlansIsFound) {
  const int workers = GetParam();
  std::vector<Graph> graphs = {test::linear_graph(12, 6, 9), test::linear_graph(5, 7, 9),
                               test::training_graph(6, 9, 4), test::mixed_graph(6, 5),
                               test::deep_graph(7, 6, 5)};
  std::mt19937 random(workers);
  for (int round = 0; round < 30; ++round) graphs.push_back(random_program(random));
  int tied = 0;
  for (const Graph& graph : graphs) {
    for (const int64_t replicate_bytes : {int64_t{0}, kAllBytes}) {
      SearchOptions options;
      options.replicate_bytes = replicate_bytes;
      options.merge = Merge::kGradients;
      const Plan plan = search(graph, {workers}, options);
      const int64_t bytes = plan_bytes(graph, plan);
      std::optional<HomeSize> least;
      double largest = 0;
      const auto consider = [&](const Plan& other, int64_t moved) {
        EXPECT_GE(moved, bytes);
        if (moved != bytes) return;
        const HomeSize size = size_of(graph, other);
        if (!least || size.less_than(*least)) least = size;
        largest = std::max(largest, size.peak);
      };
      if (replicate_bytes > 0) {
        test::for_each_plan(graph, workers, Merge::kGradients, consider);
      } else {
        test::for_each_cut_plan(graph, workers, Merge::kGradients, consider);
      }
      ASSERT_TRUE(least);
      const HomeSize found = size_of(graph, plan);
      EXPECT_EQ(found.peak, least->peak) << graph.str();
      EXPECT_EQ(found.tiles, least->tiles) << graph.str();
      tied += least->peak < largest;
    }
  }
  EXPECT_GT(tied, 5) << "plans of equal bytes differ in memory";
}

TEST(Smallest, IsWhatAnEvenTileLeaves) {
  // Rows and columns move as little, but three rows of 10 on 4 workers are more than 2 of 8.
  test::Builder b;
  const ValueId x = b.input({10, 8}), y = b.input({10, 8});
  b.output(b.add(x, y));
  SearchOptions options;
  options.replicate_bytes = 0;
  EXPECT_EQ(search(b.graph, {4}, options).values[x], Choices{1});
}

TEST(Smallest, NeverCostsMoreInSeveralSteps) {
  std::mt19937 random(5);
  int as_cheap = 0;
  for (int round = 0; round < 60; ++round) {
    const Graph graph = random_program(random);
    SearchOptions options;
    options.replicate_bytes = 0;
    options.merge = Merge::kGradients;
    options.refine = false;
    const Plan plan = search(graph, {2, 2}, options);
    options.refine = true;
    const Plan refined = search(graph, {2, 2}, options);
    EXPECT_LE(plan_bytes(graph, refined), plan_bytes(graph, plan));
    if (plan_bytes(graph, refined) < plan_bytes(graph, plan)) continue;
    EXPECT_FALSE(size_of(graph, plan).less_than(size_of(graph, refined))) << graph.str();
    ++as_cheap;
  }
  EXPECT_GT(as_cheap, 10);
}

INSTANTIATE_TEST_SUITE_P(Workers, SmallestFor, testing::Values(2, 3, 4));

}  // namespace
}  // namespace smex
