#include "partition/search/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "../../sanitized.h"
#include "../graphs.h"
#include "../plans.h"
#include "ir/error.h"
#include "partition/plan/coarsen.h"
#include "partition/plan/pending.h"
#include "partition/plan/recomputation.h"
#include "partition/price/memory.h"
#include "partition/price/price.h"

namespace smex {
namespace {

/// No tensor is so small that it may be replicated: every plan of the small graphs moves bytes.
SearchOptions all_cut(Planner planner = Planner::kTofu) {
  SearchOptions options;
  options.replicate_bytes = 0;
  options.planner = planner;
  return options;
}

/// Whether all plans for so many workers are tried.
bool tries_all(int workers) { return !test::kSanitized || workers == 2; }

/// The cheapest plan among all cuts of every coarse group and all strategies of every op.
int64_t brute_force(const Graph& graph, int workers, Merge merge) {
  int64_t best = std::numeric_limits<int64_t>::max();
  test::for_each_cut_plan(graph, workers, merge,
                          [&](const Plan&, int64_t bytes) { best = std::min(best, bytes); });
  return best;
}

std::vector<Graph> graphs() {
  return {test::linear_graph(12, 6, 9), test::linear_graph(4, 18, 6), test::training_graph(6, 9, 4),
          test::mixed_graph(6, 5), test::deep_graph(7, 6, 5)};
}

class SearchFor : public testing::TestWithParam<int> {};

TEST_P(SearchFor, CostEqualsBruteForce) {
  std::vector<Graph> all = graphs();
  all.push_back(test::layers_graph(6, 4, 9, 1, /*checkpoints=*/true));
  for (const Graph& graph : all) {
    for (const Merge merge : {Merge::kGradients, Merge::kPointwise}) {
      SearchOptions options = all_cut();
      options.merge = merge;
      const Plan plan = search(graph, {GetParam()}, options);
      const int64_t bytes = plan_bytes(graph, plan);
      EXPECT_TRUE(plan.exact);
      EXPECT_GT(bytes, 0) << graph.str();
      if (tries_all(GetParam())) {
        EXPECT_EQ(bytes, brute_force(graph, GetParam(), merge)) << graph.str();
      }
      EXPECT_EQ(plan.step_bytes, std::vector<int64_t>{bytes}) << graph.str();
    }
  }
}

TEST_P(SearchFor, NeverWorseThanCuttingDimensionZero) {
  bool cheaper = false;
  for (const Graph& graph : graphs()) {
    // all_row holds whole what it cannot cut along dimension 0, which the search may not.
    for (const Value& value : graph.values()) {
      ASSERT_TRUE(value.shape.empty() || value.shape[0] >= GetParam());
    }
    const int64_t bytes = plan_bytes(graph, search(graph, {GetParam()}, all_cut()));
    const int64_t by_rows =
        plan_bytes(graph, search(graph, {GetParam()}, all_cut(Planner::kAllRow)));
    EXPECT_LE(bytes, by_rows) << graph.str();
    cheaper |= bytes < by_rows;
  }
  EXPECT_TRUE(cheaper);
}

TEST_P(SearchFor, IsDeterministic) {
  for (const Graph& graph : graphs()) {
    const Plan a = search(graph, {GetParam(), 2}, all_cut());
    const Plan b = search(graph, {GetParam(), 2}, all_cut());
    EXPECT_GT(plan_bytes(graph, a), 0);
    EXPECT_EQ(a.values, b.values);
    EXPECT_EQ(a.ops, b.ops);
    EXPECT_EQ(a.step_bytes, b.step_bytes);
  }
}

/// A graph of a few products, sums, transposes and reductions of what is there.
Graph random_graph(std::mt19937& random) {
  test::Builder b;
  const int64_t n = 4 + random() % 5;
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
        known.push_back(b.add(first, second));
        break;
      default:
        known.push_back(b.mm(first, second));
    }
  }
  b.output(b.sum_rows(known.back()));
  return std::move(b.graph);
}

TEST(Search, IsTheCheapestOfAllPlansOfRandomGraphs) {
  constexpr int kGraphs = test::random_cases(500);
  int limited = 0, impossible = 0;
  for (int seed = 0; seed < kGraphs; ++seed) {
    std::mt19937 random(seed);
    const Graph graph = random_graph(random);
    const int workers = 2 + seed % 2;
    // All cuts with replicas and pending sums: with any memory, and with too little for the
    // cheapest.
    struct Candidate {
      int64_t bytes, memory;
    };
    std::vector<Candidate> all;
    test::for_each_plan(graph, workers, Merge::kGradients, [&](const Plan& plan, int64_t bytes) {
      all.push_back({bytes, heaviest_point(graph, plan).bytes});
    });
    SearchOptions options;
    options.replicate_bytes = std::numeric_limits<int64_t>::max();
    int64_t cheapest = std::numeric_limits<int64_t>::max(), roomiest = 0;
    int64_t smallest = std::numeric_limits<int64_t>::max();
    for (const Candidate& plan : all) {
      cheapest = std::min(cheapest, plan.bytes);
      roomiest = std::max(roomiest, plan.memory);
      smallest = std::min(smallest, plan.memory);
    }
    const Plan free = search(graph, {workers}, options);
    ASSERT_TRUE(free.exact);
    ASSERT_EQ(free.step_bytes[0], cheapest) << "seed " << seed << "\n" << graph.str();
    for (const double room : {0.0, 0.2, 0.5}) {
      const auto span = static_cast<double>(roomiest - smallest);
      options.memory_limit = static_cast<double>(smallest) + room * span;
      cheapest = std::numeric_limits<int64_t>::max();
      for (const Candidate& plan : all) {
        if (static_cast<double>(plan.memory) <= *options.memory_limit) {
          cheapest = std::min(cheapest, plan.bytes);
        }
      }
      const Plan plan = search(graph, {workers}, options);
      ASSERT_TRUE(plan.exact);
      ASSERT_EQ(plan.step_bytes[0], cheapest) << "seed " << seed << ", room " << room << "\n"
                                              << graph.str();
      ASSERT_LE(heaviest_point(graph, plan).bytes, *options.memory_limit);
      limited += plan.step_bytes[0] > free.step_bytes[0];
    }
    options.memory_limit = static_cast<double>(smallest) - 1;
    const Plan squeezed = search(graph, {workers}, options);
    impossible += heaviest_point(graph, squeezed).bytes > *options.memory_limit;
  }
  EXPECT_GT(limited, kGraphs / 2);
  EXPECT_EQ(impossible, kGraphs);
}

// ---- time ----

/// A machine on which neither arithmetic nor memory nor links are free.
Cluster machine() { return {"four", {{{4, 50}, {8, 25}}, 200, 0.1}, {{4, {0.25, 40}}}}; }

double seconds(const Plan& plan) {
  double sum = plan.compute_seconds;
  for (double step : plan.step_seconds) sum += step;
  return sum;
}

/// The least seconds of any cuts of the coarse groups and any strategies, replicas and pending sums
/// included.
double least_seconds(const Graph& graph, int workers, Merge merge) {
  const Machine on = machine().on({workers});
  double best = std::numeric_limits<double>::infinity();
  test::for_each_cut(graph, workers, /*replicas=*/true, merge, [&](Plan& plan) {
    std::vector<std::vector<int>> strategies;
    size_t most = 0;
    for (const Op& op : graph.ops()) {
      strategies.push_back(test::possible_strategies(plan, op));
      if (strategies.back().empty()) return;
      most = std::max(most, strategies.back().size());
    }
    // The costs of ops are added: each takes its cheapest strategy.
    std::vector<double> least(graph.ops().size(), std::numeric_limits<double>::infinity());
    for (size_t n = 0; n < most; ++n) {
      for (const Op& op : graph.ops()) {
        plan.ops[op.id] = {strategies[op.id][n % strategies[op.id].size()]};
      }
      const std::vector<OpPrice> prices = op_prices(graph, &on, plan);
      for (const Op& op : graph.ops()) {
        const OpPrice& price = prices[op.id];
        least[op.id] = std::min(least[op.id], price.compute_seconds + price.step_seconds[0]);
      }
    }
    best = std::min(best, std::accumulate(least.begin(), least.end(), 0.0));
  });
  return best;
}

TEST_P(SearchFor, TimeEqualsBruteForce) {
  std::vector<Graph> all = graphs();
  all.push_back(test::unrolled(2, 6, 6, 7).graph);
  for (const Graph& graph : all) {
    SearchOptions options;
    options.replicate_bytes = std::numeric_limits<int64_t>::max();
    options.objective = Objective::kTime;
    options.machine = machine();
    for (const Merge merge : {Merge::kGradients, Merge::kPointwise}) {
      if (merge == Merge::kGradients && graph.values().size() > 8) continue;  // too many to try
      options.merge = merge;
      const Plan plan = search(graph, {GetParam()}, options);
      EXPECT_TRUE(plan.exact);
      if (tries_all(GetParam())) {
        EXPECT_NEAR(seconds(plan), least_seconds(graph, GetParam(), merge), 1e-9) << graph.str();
      }
    }
  }
}

TEST_P(SearchFor, WhatIsMergedOnlyCosts) {
  for (const Graph& graph : graphs()) {
    SearchOptions options = all_cut();
    std::vector<int64_t> bytes;
    for (const Merge merge : {Merge::kGradients, Merge::kSteps, Merge::kPointwise}) {
      options.merge = merge;
      bytes.push_back(search(graph, {GetParam()}, options).step_bytes[0]);
    }
    EXPECT_LE(bytes[0], bytes[1]);
    EXPECT_LE(bytes[1], bytes[2]);
    options.merge = std::nullopt;
    EXPECT_EQ(search(graph, {GetParam()}, options).step_bytes[0], bytes[0]);
    options.max_work = 1;  // too little for anything but the most merged
    EXPECT_EQ(search(graph, {GetParam()}, options).step_bytes[0], bytes[2]);
  }
}

TEST_P(SearchFor, StepsChosenTogetherAreTheCheapest) {
  for (const Graph& graph : {test::linear_graph(12, 6, 9), test::training_graph(6, 9, 4)}) {
    SearchOptions options = all_cut();
    const int64_t apart = plan_bytes(graph, search(graph, {GetParam(), 2}, options));
    options.joint = 2;
    const Plan together = search(graph, {GetParam(), 2}, options);
    EXPECT_TRUE(together.exact);
    EXPECT_LE(plan_bytes(graph, together), apart);
  }
}

// ---- steps and planners ----

TEST(Search, ChoosingAgainNeverCosts) {
  for (const Mesh& mesh : {Mesh{2, 2}, Mesh{3, 2}, Mesh{2, 2, 2}}) {
    for (const Graph& graph : graphs()) {
      SearchOptions options = all_cut();
      const int64_t refined = plan_bytes(graph, search(graph, mesh, options));
      options.refine = false;
      EXPECT_LE(refined, plan_bytes(graph, search(graph, mesh, options))) << graph.str();
    }
  }
}

TEST(Search, PlannersKeepToTheirRules) {
  bool differ = false;
  for (const Graph& graph : graphs()) {
    const DimClasses classes(graph);
    const Plan rows = search(graph, {2, 2}, all_cut(Planner::kAllRow));
    for (const Choices& choices : rows.values) {
      for (int dim : choices) EXPECT_LE(dim, 0);
    }
    const Plan whole = search(graph, {2}, all_cut(Planner::kIcml18));
    for (const Op& op : graph.ops()) {
      for (const Layout& made : op_tiles(graph, classes, whole, op, whole.ops[op.id]).outputs) {
        EXPECT_EQ(made.num_partials, 1);
      }
    }
    const Plan copies = search(graph, {2}, all_cut(Planner::kDataParallel));
    const Plan sharded = search(graph, {2}, all_cut(Planner::kFsdp));
    EXPECT_EQ(copies.ops, sharded.ops);
    for (const Value& value : graph.values()) {
      if (value.role != Role::kParameter) continue;
      EXPECT_EQ(copies.values[value.id], Choices{kReplicate});
      EXPECT_EQ(sharded.values[value.id], Choices{0});
    }
    SearchOptions first = all_cut(Planner::kRandom), second = first;
    second.seed = 1;
    EXPECT_EQ(search(graph, {2, 2}, first).values, search(graph, {2, 2}, first).values);
    differ |= search(graph, {2, 2}, first).values != search(graph, {2, 2}, second).values;
  }
  EXPECT_TRUE(differ) << "other seeds draw other cuts";
}

TEST(Search, NoPlannerBeatsIt) {
  for (const Mesh& mesh : {Mesh{2}, Mesh{3}, Mesh{2, 2}}) {
    for (const Graph& graph : graphs()) {
      const int64_t best = plan_bytes(graph, search(graph, mesh, all_cut()));
      for (const Planner planner :
           {Planner::kAllRow, Planner::kSpartan, Planner::kIcml18, Planner::kRandom}) {
        const Plan other = search(graph, mesh, all_cut(planner));
        EXPECT_LE(best, plan_bytes(graph, other)) << name_of(planner) << "\n" << graph.str();
        EXPECT_EQ(std::accumulate(other.step_bytes.begin(), other.step_bytes.end(), int64_t{0}),
                  plan_bytes(graph, other));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, SearchFor, testing::Values(2, 3));

TEST(SearchOptions, PinnedValuesKeepTheirCut) {
  SearchOptions options;
  options.pinned = {{1, {1, 0}}};
  EXPECT_EQ(search(test::linear_graph(12, 6, 8), {2, 2}, options).values[1], (Choices{1, 0}));
}

TEST(SearchOptions, AnUnknownNameIsAUserError) {
  EXPECT_THROW(planner_of("greedy"), UserError);
  EXPECT_THROW(objective_of("energy"), UserError);
  for (const Planner planner : all_planners()) EXPECT_EQ(planner_of(name_of(planner)), planner);
}

TEST(Factorise, GivesDescendingPrimes) {
  EXPECT_EQ(factorise(1), Mesh{});
  EXPECT_EQ(factorise(7), (Mesh{7}));
  EXPECT_EQ(factorise(12), (Mesh{3, 2, 2}));
  EXPECT_THROW(factorise(0), UserError);
}

}  // namespace
}  // namespace smex
