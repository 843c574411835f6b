#include "partition/search/actions.h"

#include <gtest/gtest.h>

#include <random>

#include "../graphs.h"
#include "ir/error.h"
#include "partition/lower/lower.h"
#include "partition/search/search.h"

namespace smex {
namespace {

std::vector<Plan> bases_of(const Graph& graph, const Mesh& mesh) {
  std::vector<Plan> bases;
  for (const int weighting : {0, 1}) {
    SearchOptions options;
    options.planner = Planner::kHomes;
    options.weighting = weighting;
    options.replicate_bytes = int64_t{1} << 62;
    bases.push_back(search(graph, mesh, options));
  }
  return bases;
}

TEST(Actions, MakePlansThatRunAndMoveWhatTheyCost) {
  std::mt19937 random(3);
  for (const Mesh& mesh : {Mesh{2}, Mesh{3}, Mesh{2, 2}}) {
    for (int round = 0; round < 8; ++round) {
      for (Graph graph : {test::training_graph(9, 6, 5), test::deep_graph(8, 4, 6),
                          test::mixed_graph(7, 5), test::messages_graph(random, 12, 4)}) {
        const int workers = mesh_size(mesh);
        test::weigh(random, workers, graph);
        const std::vector<Plan> bases = bases_of(graph, mesh);
        std::vector<Action> actions;
        for (size_t n = 0; n < graph.ops().size(); ++n) {
          actions.push_back({static_cast<int>(random() % (workers + 1)) - 1,
                             static_cast<int>(random() % 2), random() % 2 == 0});
        }
        const Plan plan = plan_of_actions(graph, bases, actions);
        EXPECT_EQ(moved_bytes(lower(graph, plan), true, true), plan_bytes(graph, plan));
      }
    }
  }
}

TEST(Actions, SayWhereParametersLie) {
  Graph graph = test::training_graph(8, 6, 4);
  graph.give_weightings({{"speed", {3, 1}}});
  const std::vector<Plan> bases = bases_of(graph, {2});
  const auto weight = [&](const Action& action) {
    const Plan plan = plan_of_actions(graph, bases, std::vector(graph.ops().size(), action));
    for (const Value& value : graph.values()) {
      if (value.role == Role::kParameter) return plan.values[value.id][0];
    }
    return 0;
  };
  EXPECT_EQ(weight({-1, 0, false}), kReplicate);
  EXPECT_EQ(weight({-1, 1, true}), only_at(0));
  EXPECT_EQ(weight({1, 0, false}), only_at(1));
}

TEST(Actions, ThatDoNotFitAreRefused) {
  const Graph graph = test::deep_graph(8, 4, 6);
  const std::vector<Plan> bases = {search(graph, {2})};
  const size_t ops = graph.ops().size();
  EXPECT_THROW(plan_of_actions(graph, bases, {}), InternalError);
  EXPECT_THROW(plan_of_actions(graph, {}, std::vector<Action>(ops)), InternalError);
  EXPECT_THROW(plan_of_actions(graph, bases, std::vector<Action>(ops, {2, 0})), InternalError);
  EXPECT_THROW(plan_of_actions(graph, bases, std::vector<Action>(ops, {0, 1})), InternalError);
}

}  // namespace
}  // namespace smex
