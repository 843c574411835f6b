#include "partition/search/minimise/within_limits.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace smex {
namespace {

struct Problem {
  FactorGraph graph;
  std::vector<Limit> limits;

  std::optional<Limit> worst(const std::vector<int>& choices) const {
    std::optional<Limit> found;
    double most = 0;
    for (const Limit& limit : limits) {
      const double excess = limit.sum(choices) - limit.bound;
      if (excess <= most) continue;
      most = excess;
      found = limit;
    }
    return found;
  }

  double cost(const std::vector<int>& choices) const {
    double sum = 0;
    for (const Factor& factor : graph.factors) {
      size_t position = 0;
      for (int v : factor.variables) position = position * graph.domain_sizes[v] + choices[v];
      sum += factor.table[position];
    }
    return sum;
  }
};

/// A chain whose cheap choices weigh much, with `count` limits on parts of it.
Problem random_problem(std::mt19937& random, int variables, int count, double tightness) {
  Problem problem;
  for (int v = 0; v < variables; ++v) problem.graph.domain_sizes.push_back(2 + random() % 2);
  for (int v = 0; v < variables; ++v) {
    Factor factor{{v}, {}};
    if (v > 0) factor.variables = {v - 1, v};
    size_t entries = 1;
    for (int other : factor.variables) entries *= problem.graph.domain_sizes[other];
    for (size_t n = 0; n < entries; ++n) factor.table.push_back(random() % 100);
    problem.graph.factors.push_back(std::move(factor));
  }
  for (int c = 0; c < count; ++c) {
    Limit limit;
    double most = 0;
    for (int v = 0; v < variables; ++v) {
      if (random() % 3 == 0) continue;
      std::vector<double>& weights = limit.weights[v];
      for (int n = 0; n < problem.graph.domain_sizes[v]; ++n) weights.push_back(1 + random() % 20);
      most += *std::max_element(weights.begin(), weights.end());
    }
    limit.bound = std::max(1.0, std::floor(most * tightness));
    problem.limits.push_back(std::move(limit));
  }
  return problem;
}

double brute_force(const Problem& problem) {
  std::vector<int> choices(problem.graph.domain_sizes.size(), 0);
  double best = std::numeric_limits<double>::infinity();
  while (true) {
    if (!problem.worst(choices)) best = std::min(best, problem.cost(choices));
    size_t v = 0;
    while (v < choices.size() && ++choices[v] == problem.graph.domain_sizes[v]) choices[v++] = 0;
    if (v == choices.size()) return best;
  }
}

class Limited : public testing::TestWithParam<int> {};

TEST_P(Limited, EqualsBruteForce) {
  std::mt19937 random(GetParam());
  int impossible = 0, possible = 0;
  for (const double tightness : {0.2, 0.35, 0.5, 0.65, 0.8}) {
    for (int count = 1; count <= 4; ++count) {
      const Problem problem = random_problem(random, 9, count, tightness);
      const auto found = minimise_within(
          problem.graph, [&](const std::vector<int>& choices) { return problem.worst(choices); });
      const double best = brute_force(problem);
      EXPECT_TRUE(found.best.exact);
      EXPECT_EQ(found.fits, best < std::numeric_limits<double>::infinity());
      ++(found.fits ? possible : impossible);
      if (!found.fits) continue;
      EXPECT_FALSE(problem.worst(found.best.choices));
      EXPECT_EQ(problem.cost(found.best.choices), best);
      EXPECT_EQ(found.best.value, best);
      EXPECT_EQ(found.best.lower_bound, best);
    }
  }
  EXPECT_GT(possible, 0);
  EXPECT_GT(impossible, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Limited, testing::Range(0, 40));

TEST(Limited, ExceedsALimitThatNothingKeepsAsLittleAsCanBe) {
  std::mt19937 random(2);
  for (int count = 0; count < 20; ++count) {
    Problem problem = random_problem(random, 9, 1, 0.5);
    Limit& limit = problem.limits.front();
    double least = 0;
    for (const auto& [variable, weights] : limit.weights) {
      least += *std::min_element(weights.begin(), weights.end());
    }
    limit.bound = 0.9 * least;
    const auto found = minimise_within(
        problem.graph, [&](const std::vector<int>& choices) { return problem.worst(choices); });
    EXPECT_FALSE(found.fits);
    EXPECT_DOUBLE_EQ(limit.sum(found.best.choices), least);
  }
}

TEST(Limited, GivesABoundWhenItMayNotFinish) {
  std::mt19937 random(1);
  const Problem problem = random_problem(random, 11, 3, 0.6);
  const auto worst = [&](const std::vector<int>& choices) { return problem.worst(choices); };
  const double best = brute_force(problem);
  for (int solves : {1, 5, 20}) {
    const auto found = minimise_within(problem.graph, worst, 1 << 22, solves);
    EXPECT_LE(found.best.lower_bound, best + 1e-6);
    if (found.fits) {
      EXPECT_GE(found.best.value, best);
    }
  }
}

}  // namespace
}  // namespace smex
