#include "partition/plan/plan.h"

#include <gtest/gtest.h>

#include <random>

#include "../graphs.h"
#include "partition/search/search.h"
#include "tdl/text.h"

namespace smex {
namespace {

TEST(Mesh, WorkersAreMixedRadixWithTheFirstStepSlowest) {
  const Mesh mesh{3, 2, 2};
  ASSERT_EQ(mesh_size(mesh), 12);
  EXPECT_EQ(mesh_size({}), 1);
  int worker = 0;
  for (int a = 0; a < 3; ++a) {
    for (int b = 0; b < 2; ++b) {
      for (int c = 0; c < 2; ++c, ++worker) {
        EXPECT_EQ(mesh_coordinate(mesh, worker, 0), a);
        EXPECT_EQ(mesh_coordinate(mesh, worker, 1), b);
        EXPECT_EQ(mesh_coordinate(mesh, worker, 2), c);
      }
    }
  }
}

TEST(HomeLayout, TilesCoverEveryElementOncePerReplica) {
  const Mesh mesh{3, 2};
  for (const Shape& shape : {Shape{7, 5}, Shape{1, 1}, Shape{0, 4}, Shape{6, 4}}) {
    for (const Choices& choices : {Choices{0, 1}, Choices{0, 0}, Choices{-1, 1}, Choices{-1, -1}}) {
      int64_t replicas = 1;
      for (size_t s = 0; s < mesh.size(); ++s) replicas *= choices[s] == kReplicate ? mesh[s] : 1;
      int64_t held = 0;
      for (int w = 0; w < mesh_size(mesh); ++w) {
        const Tile tile = value_tile(shape, choices, mesh, w, std::vector<Grain>(2));
        if (tile.held) held += tile.region.numel();
      }
      EXPECT_EQ(held, replicas * Region::whole(shape).numel());
    }
  }
}

/// Bytes of a plan of `linear_graph(12, 6, 8)` on two workers, as a textbook counts them.
int64_t linear_bytes(int x, int w, int mm) {
  const Graph graph = test::linear_graph(12, 6, 8);
  Plan plan;
  plan.mesh = {2};
  plan.values = {{x}, {w}, {0}, {0}, {0}, {0}};  // x, w, y, product, sum, row sums
  plan.ops = {{mm}, {0}, {0}};
  return plan_bytes(graph, plan);
}

TEST(PlanBytes, CountsATextbookProduct) {
  EXPECT_EQ(linear_bytes(0, kReplicate, 0), 0);  // rows: nothing moves
  EXPECT_EQ(linear_bytes(0, 0, 0), 6 * 8 * 4);   // all-gather of w: (k-1) S
  EXPECT_EQ(linear_bytes(1, 0, 2), 12 * 6 * 4);  // reduce-scatter of the product: (k-1) S
  EXPECT_EQ(linear_bytes(0, kReplicate, 2), 12 * 8 * 4 / 2 + 12 * 6 * 4);  // all-to-all of x too
}

TEST(PlanBytes, NothingMovesOnOneWorker) {
  std::mt19937 random(1);
  const Graph graph = test::training_graph(5, 3, 4);
  EXPECT_EQ(plan_bytes(graph, test::random_plan(random, graph, {})), 0);
  EXPECT_EQ(plan_bytes(graph, test::random_plan(random, graph, {1})), 0);
}

class SearchedPlans : public testing::TestWithParam<Mesh> {};

TEST_P(SearchedPlans, StepBytesAddUpToPlanBytes) {
  for (const Planner planner : {Planner::kTofu, Planner::kDataParallel, Planner::kAllRow}) {
    for (int64_t replicate_bytes : {0, 64, 1 << 16}) {
      SearchOptions options;
      options.planner = planner;
      options.replicate_bytes = replicate_bytes;
      for (const Graph& graph :
           {test::linear_graph(13, 6, 9), test::training_graph(8, 12, 7),
            test::deep_graph(12, 8, 10), test::mixed_graph(12, 9), test::linear_graph(0, 1, 5)}) {
        const Plan plan = search(graph, GetParam(), options);
        ASSERT_EQ(plan.step_bytes.size(), GetParam().size());
        int64_t steps = 0;
        for (int64_t bytes : plan.step_bytes) steps += bytes;
        EXPECT_EQ(plan_bytes(graph, plan), steps)
            << name_of(planner) << " " << replicate_bytes << "\n"
            << graph.str();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, SearchedPlans,
                         testing::Values(Mesh{}, Mesh{2}, Mesh{3}, Mesh{2, 2}, Mesh{3, 2}));

/// A parameter whose gradient a reshape makes: two rows of two, which no cut may divide.
TEST(HomeLayout, AGradientLiesWhereItsParameterDoes) {
  Graph graph;
  const ValueId w = graph.add_value("w", {4}, "float32", 4, Role::kParameter);
  const ValueId tangent = graph.add_value("tangent", {2, 2}, "float32", 4, Role::kTangent);
  const ValueId gradient = graph.add_value("gradient", {4}, "float32", 4, Role::kIntermediate);
  Op view;
  view.target = "view";
  view.args = {ValueRef{tangent}};
  view.outputs = {gradient};
  view.spec = std::make_shared<tdl::Spec>(
      tdl::parse_spec("index i=4\ninput [2,2]\n[i] = #0[floordiv(i, 2), mod(i, 2)]\n"));
  graph.add_op(std::move(view));
  graph.add_output({gradient, OutputKind::kGradient, "w", w});
  const DimClasses classes(graph);
  for (const Mesh& mesh : {Mesh{2}, Mesh{3}, Mesh{2, 2}}) {
    Plan plan;
    plan.mesh = mesh;
    plan.values.assign(graph.values().size(), Choices(mesh.size(), 0));
    const Layout of_parameter = home_layout(graph, classes, plan, w);
    const Layout of_gradient = home_layout(graph, classes, plan, gradient);
    for (int worker = 0; worker < mesh_size(mesh); ++worker) {
      EXPECT_EQ(of_parameter.tiles[worker].held, of_gradient.tiles[worker].held);
      EXPECT_EQ(of_parameter.tiles[worker].region, of_gradient.tiles[worker].region);
    }
  }
}

}  // namespace
}  // namespace smex
