#include "graph/traverse/traverse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../edges.h"

namespace smex::graph {
namespace {

template <typename Index>
class Traverse : public ::testing::Test {
 protected:
  using Ids = std::vector<Index>;
  using Sizes = std::vector<int64_t>;

  static Compressed<Index> square(int64_t nodes, Ids sources, Ids destinations) {
    return compress(Edges<Index>{nodes, nodes, std::move(sources), std::move(destinations)}.list());
  }
  //  0 -> 1 -> 2 -> 3,  1 -> 3,  2 -> 4 -> 5,  3 -> 5 -> 0,  0 -> 2 and 0 -> 1 again
  const Compressed<Index> graph =
      square(6, {0, 1, 1, 2, 2, 3, 4, 0, 5, 0}, {1, 2, 3, 3, 4, 5, 5, 2, 0, 1});
};
using Indices = ::testing::Types<int32_t, int64_t>;
TYPED_TEST_SUITE(Traverse, Indices);

TYPED_TEST(Traverse, BreadthFirst) {
  using Ids = typename TestFixture::Ids;
  using Sizes = typename TestFixture::Sizes;
  const Ids source = {0}, several = {0, 0, 1};
  auto nodes = bfs_nodes(this->graph.rows(), source.data(), 1, -1);
  EXPECT_EQ(nodes.ids, (Ids{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(nodes.sizes, (Sizes{1, 2, 2, 1}));
  auto edges = bfs_edges(this->graph.rows(), source.data(), 1);
  EXPECT_EQ(edges.ids, (Ids{0, 7, 2, 4, 5}));
  EXPECT_EQ(edges.sizes, (Sizes{2, 2, 1}));
  nodes = bfs_nodes(this->graph.rows(), several.data(), 3, 1);
  EXPECT_EQ(nodes.ids, (Ids{0, 0, 1, 2, 3}));
  EXPECT_EQ(nodes.sizes, (Sizes{3, 2}));
  nodes = bfs_nodes(this->graph.rows(), several.data(), 3, 0);
  EXPECT_EQ(nodes.sizes, (Sizes{3}));
  nodes = bfs_nodes(this->graph.rows(), several.data(), 0, -1);
  EXPECT_TRUE(nodes.ids.empty() && nodes.sizes.empty());
  edges = bfs_edges(this->graph.rows(), several.data(), 0);
  EXPECT_TRUE(edges.ids.empty() && edges.sizes.empty());
}

TYPED_TEST(Traverse, DepthFirst) {
  using Ids = typename TestFixture::Ids;
  using Sizes = typename TestFixture::Sizes;
  const Ids source = {0}, two = {2, 0};
  Sizes labels;
  auto edges = dfs_edges(this->graph.rows(), source.data(), 1, true, true, labels);
  EXPECT_EQ(edges.ids, (Ids{0, 1, 3, 5, 8, 5, 3, 4, 6, 4, 1, 2, 0, 7, 9}));
  EXPECT_EQ(labels, (Sizes{0, 0, 0, 0, 2, 1, 1, 0, 2, 1, 1, 2, 1, 2, 2}));
  EXPECT_EQ(edges.sizes, Sizes(15, 1));
  labels.clear();
  edges = dfs_edges(this->graph.rows(), two.data(), 2, false, false, labels);
  // From 2: 3 5 8 0 4, from 0: 0 1 3 5 4, side by side.
  EXPECT_EQ(edges.ids, (Ids{3, 0, 5, 1, 8, 3, 0, 5, 4, 4}));
  EXPECT_EQ(edges.sizes, Sizes(5, 2));
  EXPECT_EQ(labels, Sizes(10, 0));
}

TYPED_TEST(Traverse, DepthFirstNeedsNoStackOfCalls) {
  const TypeParam kLength = 200000;
  typename TestFixture::Ids from, to;
  for (TypeParam i = 0; i + 1 < kLength; ++i) {
    from.push_back(i);
    to.push_back(i + 1);
  }
  const auto chain = this->square(kLength, from, to);
  const TypeParam source = 0;
  std::vector<int64_t> labels;
  EXPECT_EQ(dfs_edges(chain.rows(), &source, 1, true, true, labels).ids.size(),
            2 * (static_cast<size_t>(kLength) - 1));
}

TYPED_TEST(Traverse, Topological) {
  using Ids = typename TestFixture::Ids;
  using Sizes = typename TestFixture::Sizes;
  const auto acyclic = this->square(7, {0, 1, 1, 2, 2, 3, 4, 0}, {1, 2, 3, 3, 4, 5, 5, 2});
  auto nodes = topological_nodes(acyclic.rows());
  EXPECT_EQ(nodes.ids, (Ids{0, 6, 1, 2, 3, 4, 5}));
  EXPECT_EQ(nodes.sizes, (Sizes{2, 1, 1, 2, 1}));
  EXPECT_TRUE(topological_nodes(this->graph.rows()).ids.empty());
  nodes = topological_nodes(this->square(4, {0, 1, 1, 2}, {1, 1, 2, 3}).rows());
  EXPECT_EQ(nodes.ids, (Ids{0}));  // 1 is its own successor, 2 and 3 come after it
  EXPECT_TRUE(topological_nodes(this->square(0, {}, {}).rows()).ids.empty());
}

TYPED_TEST(Traverse, AnAdjacencyIsSquare) {
  EXPECT_EQ(why_not_square(this->graph.rows()), nullptr);
  const typename TestFixture::Ids indptr = {0, 1, 2}, broken = {0, 2, 1}, indices = {0, 2};
  EXPECT_NE(std::string(why_not_square<TypeParam>({2, 2, indptr.data(), indices.data(), nullptr}))
                .find("every column must be a row"),
            std::string::npos);
  EXPECT_NE(std::string(why_not_square<TypeParam>({2, 2, broken.data(), indices.data(), nullptr}))
                .find("indptr must ascend"),
            std::string::npos);
}

TYPED_TEST(Traverse, ReachesWhatRepeatedStepsReach) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto edges = random_edges<TypeParam>(30, 30, 40, 0.2, seed);
    const auto form = compress(edges.list());
    std::set<TypeParam> expected = {3};
    for (size_t before = 0; before != expected.size();) {
      before = expected.size();
      for (size_t i = 0; i < edges.rows.size(); ++i) {
        if (expected.contains(edges.rows[i])) expected.insert(edges.columns[i]);
      }
    }
    const TypeParam source = 3;
    const auto nodes = bfs_nodes(form.rows(), &source, 1, -1);
    EXPECT_EQ(std::set<TypeParam>(nodes.ids.begin(), nodes.ids.end()), expected) << seed;
    EXPECT_EQ(nodes.ids.size(), expected.size());
    std::vector<int64_t> labels;
    EXPECT_EQ(dfs_edges(form.rows(), &source, 1, false, false, labels).ids.size(),
              expected.size() - 1);
  }
}

}  // namespace
}  // namespace smex::graph
