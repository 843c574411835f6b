#include "partition/vertices/boundaries.h"

#include <gtest/gtest.h>

#include <random>

#include "../graphs.h"
#include "ir/error.h"

namespace smex {
namespace {

/// Of one layer along four edges into vertices 0, 0, 1 and 3, and its rows' product.
struct Layer {
  test::Builder b;
  test::Builder::Structure edges = b.structure({0, 2, 3, 3, 4}, {1, 3, 0, 2});
  ValueId x = b.input({4, 2});
  ValueId sums = b.gather_sums(edges, x);
  ValueId weight = b.input({2, 3}, Role::kParameter);
  ValueId y = b.mm(sums, weight);
};

TEST(Boundaries, CutWhatVerticesAndEdgesAreRowsOf) {
  Layer layer;
  const Graph graph = with_boundaries(layer.b.graph, {{4, {0, 1, 4}}});
  const DimClasses classes(graph);
  const auto ends = [&](ValueId value) { return *classes.grain(value, 0).bounds; };
  for (ValueId value : {layer.x, layer.sums, layer.y}) {
    EXPECT_EQ(ends(value), (std::vector<int64_t>{0, 1, 4}));
    EXPECT_FALSE(classes.grain(value, 1).bounds);
  }
  EXPECT_EQ(ends(layer.edges.columns), (std::vector<int64_t>{0, 2, 4}));
  EXPECT_FALSE(classes.grain(layer.weight, 0).bounds);
  Plan plan;
  plan.mesh = {2};
  plan.values.assign(graph.values().size(), {kReplicate});
  plan.ops = {{0}, {kReplicate}};
  const auto walks = edge_walks(graph);
  ASSERT_EQ(walks.size(), 1);
  EXPECT_EQ(walks[0].width, 2);
  EXPECT_EQ(walked_rows(graph, plan, walks)[0], (std::vector<Interval>{{0, 1}, {1, 4}}));
}

TEST(Boundaries, OfOtherNumbersOfVerticesCutNothing) {
  Layer layer;
  EXPECT_TRUE(with_boundaries(layer.b.graph, {{5, {0, 1, 5}}}).given_parts().empty());
}

TEST(Boundaries, AreReplacedByOthers) {
  Layer layer;
  const Graph first = with_boundaries(layer.b.graph, {{4, {0, 1, 4}}});
  EXPECT_TRUE(with_boundaries(first, {}).given_parts().empty());
  const DimClasses classes(with_boundaries(first, {{4, {0, 3, 4}}}));
  EXPECT_EQ(*classes.grain(layer.x, 0).bounds, (std::vector<int64_t>{0, 3, 4}));
}

TEST(Boundaries, ThatDoNotAscendAreRefused) {
  Layer layer;
  EXPECT_THROW(with_boundaries(layer.b.graph, {{4, {0, 3, 2, 4}}}), InternalError);
  EXPECT_THROW(with_boundaries(layer.b.graph, {{4, {1, 4}}}), InternalError);
}

}  // namespace
}  // namespace smex
