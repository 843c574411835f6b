#include "partition/plan/alike.h"

#include <gtest/gtest.h>

#include "../graphs.h"
#include "partition/lower/lower.h"
#include "partition/search/search.h"

namespace smex {
namespace {

TEST(Alike, GraphsThatDifferInSizes) {
  const Graph graph = test::training_graph(8, 6, 4);
  EXPECT_TRUE(differ_in_sizes_only(graph, graph));
  EXPECT_TRUE(differ_in_sizes_only(graph, test::training_graph(5, 6, 4)));
  EXPECT_FALSE(differ_in_sizes_only(graph, test::linear_graph(8, 6, 4)));
  EXPECT_FALSE(differ_in_sizes_only(graph, test::deep_graph(8, 6, 4)));
}

TEST(Alike, OtherRegionsAreOtherGraphs) {
  EXPECT_FALSE(differ_in_sizes_only(test::layers_graph(5, 4, 6, 2, /*checkpoints=*/true),
                                    test::layers_graph(5, 4, 6, 2, /*checkpoints=*/false)));
}

TEST(Alike, APlanIsOneOfOtherSizes) {
  for (const Mesh& mesh : {Mesh{2}, Mesh{3, 2}}) {
    const Graph graph = test::training_graph(24, 12, 8);
    const Plan plan = search(graph, mesh);
    const Graph other = test::training_graph(25, 12, 8);
    EXPECT_TRUE(is_plan_of(other, plan));
    EXPECT_EQ(moved_bytes(lower(other, plan), true, true), plan_bytes(other, plan));
  }
}

TEST(Alike, NotOfSizesThatCannotBeSplit) {
  const Graph graph = test::training_graph(8, 6, 4);
  Plan plan = search(graph, {2});
  plan.ops[0] = {0};  // the rows of the first product
  EXPECT_TRUE(is_plan_of(graph, plan));
  EXPECT_FALSE(is_plan_of(test::training_graph(1, 6, 4), plan));
}

}  // namespace
}  // namespace smex
