#include "smex/graph.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace smex {
namespace {

at::Tensor ids(const std::vector<int64_t>& numbers) { return at::tensor(numbers, at::kLong); }

/// 0 -> 2, 1 -> 2, 3 -> 2, 2 -> 0.
Graph small_graph() { return Graph::from_edges(ids({0, 1, 3, 2}), ids({2, 2, 2, 0}), 4); }

TEST(Graph, SortsEdgesByTheNodeThatTheyGoInto) {
  const Graph graph = small_graph();
  EXPECT_EQ(graph.num_nodes(), 4);
  EXPECT_EQ(graph.num_edges(), 4);
  EXPECT_TRUE(graph.in_degrees().equal(ids({1, 0, 3, 0})));
  EXPECT_TRUE(graph.indptr().equal(ids({0, 1, 1, 4, 4})));
  EXPECT_TRUE(graph.indices().equal(ids({2, 0, 1, 3})));
  EXPECT_TRUE(graph.eids().equal(ids({3, 0, 1, 2})));
}

TEST(Graph, ABlockNumbersTargetsFirst) {
  const Block block = small_graph().sample(ids({2, 1}), /*fanout=*/-1);
  EXPECT_TRUE(block.nodes.equal(ids({2, 1, 0, 3})));
  EXPECT_TRUE(block.indptr.equal(ids({0, 3, 3})));
  EXPECT_TRUE(block.indices.equal(ids({2, 1, 3})));
  EXPECT_TRUE(block.eids.equal(ids({0, 1, 2})));
  EXPECT_EQ(block.num_targets(), 2);
  EXPECT_EQ(block.num_sources(), 4);
}

TEST(Graph, DrawsAsManyAsAreAskedForByTheSeed) {
  const Graph graph = small_graph();
  const Block one = graph.sample(ids({2}), 2, {.seed = 5});
  EXPECT_EQ(one.num_edges(), 2);
  EXPECT_TRUE(one.eids.equal(graph.sample(ids({2}), 2, {.seed = 5}).eids));
  int64_t different = 0;
  for (int64_t seed = 0; seed < 20; ++seed) {
    different += !one.eids.equal(graph.sample(ids({2}), 2, {.seed = seed}).eids);
  }
  EXPECT_GT(different, 0);
}

TEST(Graph, WeightsOfZeroAreNotDrawn) {
  const at::Tensor weights = at::tensor({0.0, 0.0, 1.0, 1.0}, at::kDouble);
  for (int64_t seed = 0; seed < 20; ++seed) {
    const Block block = small_graph().sample(ids({2}), 1, {.weights = weights, .seed = seed});
    EXPECT_TRUE(block.eids.equal(ids({2})));
  }
}

TEST(Graph, LayersReadTheSourcesOfTheNext) {
  const std::vector<Block> blocks = small_graph().sample_layers(ids({0}), {-1, -1});
  ASSERT_EQ(blocks.size(), 2);
  EXPECT_TRUE(blocks[1].nodes.equal(ids({0, 2})));
  EXPECT_TRUE(blocks[0].nodes.equal(ids({0, 2, 1, 3})));
  EXPECT_EQ(blocks[0].num_targets(), blocks[1].num_sources());
}

TEST(Graph, AnEmptyOneHasNoEdges) {
  const Graph graph = Graph::from_edges(ids({}), ids({}), 3);
  EXPECT_EQ(graph.num_edges(), 0);
  const Block block = graph.sample(ids({1}), 5);
  EXPECT_EQ(block.num_edges(), 0);
  EXPECT_TRUE(block.nodes.equal(ids({1})));
}

TEST(Graph, NodesThatAreNotThereAreErrors) {
  EXPECT_THROW(Graph::from_edges(ids({0}), ids({3}), 3), c10::Error);
  EXPECT_THROW(small_graph().sample(ids({4}), 1), c10::Error);
}

}  // namespace
}  // namespace smex
