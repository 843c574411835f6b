#include "partition/search/minimise/factor_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace smex {
namespace {

double cost_of(const FactorGraph& graph, const std::vector<int>& choices) {
  double sum = 0;
  for (const Factor& factor : graph.factors) {
    size_t position = 0;
    for (int variable : factor.variables) {
      position = position * graph.domain_sizes[variable] + choices[variable];
    }
    sum += factor.table.at(position);
  }
  return sum;
}

/// The optimum by trying every assignment.
double brute_force(const FactorGraph& graph) {
  std::vector<int> choices(graph.domain_sizes.size(), 0);
  double best = std::numeric_limits<double>::infinity();
  while (true) {
    best = std::min(best, cost_of(graph, choices));
    size_t v = 0;
    while (v < choices.size() && ++choices[v] == graph.domain_sizes[v]) choices[v++] = 0;
    if (v == choices.size()) return best;
  }
}

/// Integer costs, so that sums are exact in any order.
Factor random_factor(std::mt19937& random, const std::vector<int>& domains, size_t arity) {
  std::vector<int> variables(domains.size());
  for (size_t v = 0; v < domains.size(); ++v) variables[v] = static_cast<int>(v);
  std::shuffle(variables.begin(), variables.end(), random);  // scopes come in any order
  variables.resize(std::min(arity, variables.size()));
  size_t entries = 1;
  for (int variable : variables) entries *= domains[variable];
  Factor factor{variables, {}};
  for (size_t i = 0; i < entries; ++i) factor.table.push_back(static_cast<double>(random() % 100));
  return factor;
}

FactorGraph random_graph(std::mt19937& random, size_t variables, size_t factors) {
  FactorGraph graph;
  for (size_t v = 0; v < variables; ++v) graph.domain_sizes.push_back(1 + random() % 3);
  for (size_t f = 0; f < factors; ++f) {
    graph.factors.push_back(random_factor(random, graph.domain_sizes, random() % 4));
  }
  return graph;
}

void expect_valid(const FactorGraph& graph, const Assignment& found) {
  ASSERT_EQ(found.choices.size(), graph.domain_sizes.size());
  for (size_t v = 0; v < found.choices.size(); ++v) {
    EXPECT_GE(found.choices[v], 0);
    EXPECT_LT(found.choices[v], graph.domain_sizes[v]);
  }
  EXPECT_EQ(found.value, cost_of(graph, found.choices));
}

class RandomFactorGraphs : public testing::TestWithParam<int> {
 protected:
  std::mt19937 random_{static_cast<unsigned>(GetParam())};
};

TEST_P(RandomFactorGraphs, MinimiseEqualsBruteForce) {
  for (size_t variables = 0; variables <= 8; ++variables) {
    const FactorGraph graph = random_graph(random_, variables, 2 * variables + 1);
    const Assignment found = minimise(graph);
    expect_valid(graph, found);
    EXPECT_EQ(found.value, brute_force(graph)) << variables << " variables";
    EXPECT_EQ(found.lower_bound, found.value);
    EXPECT_TRUE(found.exact);
  }
}

TEST_P(RandomFactorGraphs, TinyTablesBracketTheOptimum) {
  for (int64_t max_table : {1, 4, 9, 27}) {
    const FactorGraph graph = random_graph(random_, 8, 16);
    const Assignment found = minimise(graph, max_table);
    expect_valid(graph, found);
    const double optimum = brute_force(graph);
    EXPECT_LE(found.lower_bound, optimum) << "max_table " << max_table;
    EXPECT_GE(found.value, optimum) << "max_table " << max_table;
    if (found.exact) {
      EXPECT_EQ(found.value, optimum);
    }
  }
}

TEST_P(RandomFactorGraphs, TheSameGraphGivesTheSameAssignment) {
  const FactorGraph graph = random_graph(random_, 8, 16);
  EXPECT_EQ(minimise(graph).choices, minimise(graph).choices);
  EXPECT_EQ(minimise(graph, /*max_table=*/4).choices, minimise(graph, /*max_table=*/4).choices);
}

TEST_P(RandomFactorGraphs, AMinimiserEqualsBruteForceUnderOtherCosts) {
  std::mt19937 random(GetParam());
  const FactorGraph graph = random_graph(random, 7, 9);
  Minimiser minimiser(graph);
  for (int round = 0; round < 4; ++round) {
    FactorGraph with = graph;
    std::vector<std::vector<double>> more(graph.domain_sizes.size());
    for (size_t v = 0; v < more.size(); ++v) {
      if (random() % 3 == 0) continue;  // costs nothing more
      for (int n = 0; n < graph.domain_sizes[v]; ++n) more[v].push_back(random() % 50);
      with.factors.push_back({{static_cast<int>(v)}, more[v]});
    }
    const Assignment found = minimiser.with(more);
    EXPECT_EQ(found.value, brute_force(with));
    EXPECT_EQ(found.value, cost_of(with, found.choices));
    EXPECT_TRUE(found.exact);
    EXPECT_EQ(found.choices, minimise(with).choices);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomFactorGraphs, testing::Range(0, 40));

/// Variables in a row, each tied to the next; all of them want to differ from their neighbours.
FactorGraph chain(int count) {
  FactorGraph graph;
  graph.domain_sizes.assign(count, 3);
  for (int v = 0; v + 1 < count; ++v) {
    graph.factors.push_back({{v, v + 1}, {5, 1, 2, 1, 5, 1, 2, 1, 5}});
  }
  return graph;
}

TEST(FactorGraph, AChainIsExactWithTablesOfTwoVariables) {
  const Assignment found = minimise(chain(8), /*max_table=*/9);
  EXPECT_TRUE(found.exact);
  EXPECT_EQ(found.largest_table, 2);
  EXPECT_EQ(found.value, 7);
}

TEST(FactorGraph, ATriangleThatDoesNotFitIsDivided) {
  FactorGraph graph = chain(3);
  graph.factors.push_back({{0, 2}, {0, 9, 9, 9, 0, 9, 9, 9, 0}});
  EXPECT_TRUE(minimise(graph, /*max_table=*/27).exact);
  const Assignment divided = minimise(graph, /*max_table=*/26);
  EXPECT_FALSE(divided.exact);
  EXPECT_LE(divided.lower_bound, 2);
  EXPECT_GE(divided.value, 2);
}

TEST(FactorGraph, NothingToChooseCostsTheConstants) {
  EXPECT_EQ(minimise({}).value, 0);
  const Assignment found = minimise({{}, {{{}, {3.0}}, {{}, {4.0}}}});
  EXPECT_EQ(found.value, 7);
  EXPECT_EQ(found.lower_bound, 7);
}

TEST(FactorGraph, AFreeVariableTakesItsFirstChoice) {
  EXPECT_EQ(minimise({{4}, {}}).choices, std::vector<int>{0});
}

}  // namespace
}  // namespace smex
