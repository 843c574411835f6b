#include "graph/walk/walk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "../edges.h"

namespace smex::graph {
namespace {

template <typename Index>
struct Walks {
  std::vector<Index> nodes, eids;
  Mistake mistake;
};

template <typename Index>
Walks<Index> walk(const std::vector<Candidates<Index>>& path, const std::vector<Index>& seeds,
                  const Restart& restart = {}, const Workers& workers = {}) {
  const int64_t count = seeds.size(), steps = path.size();
  Walks<Index> result{
      std::vector<Index>(count * (steps + 1)), std::vector<Index>(count * steps), {}};
  result.mistake = random_walk(path, seeds.data(), count, restart, 3, result.nodes.data(),
                               result.eids.data(), workers);
  return result;
}

TEST(RandomWalk, FollowsEdgesForAnyWorkers) {
  const auto edges = random_edges<int32_t>(100, 100, 300, 0.2);
  const auto form = compress(edges.list());
  const std::vector<Candidates<int32_t>> path(6, {form.rows(), {}, nullptr});
  std::vector<int32_t> seeds;
  for (int32_t i = 0; i < 1000; ++i) seeds.push_back(i % 100);
  const auto walks = walk(path, seeds);
  EXPECT_FALSE(walks.mistake);
  EXPECT_EQ(walks.nodes, walk(path, seeds, {}, threads(3)).nodes);
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(walks.nodes[7 * i], seeds[i]);
    for (int64_t k = 0; k < 6; ++k) {
      const int32_t from = walks.nodes[7 * i + k], to = walks.nodes[7 * i + k + 1];
      const int32_t eid = walks.eids[6 * i + k];
      EXPECT_EQ(to < 0, eid < 0);
      if (to >= 0) {
        EXPECT_EQ(edges.rows[eid], from);
        EXPECT_EQ(edges.columns[eid], to);
      } else if (from >= 0) {
        EXPECT_EQ(form.indptr[from], form.indptr[from + 1]);  // nowhere to go
      }
    }
  }
}

TEST(RandomWalk, FollowsWeightsAndEnds) {
  const std::vector<int64_t> indptr = {0, 3, 6, 9}, indices = {0, 1, 2, 0, 1, 2, 0, 1, 2};
  const std::vector<float> weights = {1, 2, 5, 1, 2, 5, 1, 2, 5};
  const Candidates<int64_t> from{{3, 9, indptr.data(), indices.data(), nullptr},
                                 {Weights::Kind::kFloat, weights.data()},
                                 nullptr};
  const int64_t kWalks = 40000;
  const double ends = 0.25;
  const auto walks = walk<int64_t>({from, from}, std::vector<int64_t>(kWalks, 1), {&ends, 1});
  std::map<int64_t, double> first, second;
  for (int64_t i = 0; i < kWalks; ++i) {
    first[walks.nodes[3 * i + 1]] += 1.0 / kWalks;
    second[walks.nodes[3 * i + 2]] += 1.0 / kWalks;
  }
  for (const auto& [node, share] : {std::pair{0, 0.125}, {1, 0.25}, {2, 0.625}}) {
    EXPECT_NEAR(first[node], share, 0.015);
    EXPECT_NEAR(second[node], 0.75 * share, 0.015);
  }
  EXPECT_NEAR(second[-1], 0.25, 0.015);
}

TEST(RandomWalk, NamesWhatIsNotValid) {
  const std::vector<int64_t> indptr = {0, 1, 2}, indices = {1, 5};
  const std::vector<double> weights = {1, -2};
  const EdgeRows<int64_t> rows{2, 2, indptr.data(), indices.data(), nullptr};
  const Candidates<int64_t> from{rows, {}, nullptr};
  const Candidates<int64_t> weighted{rows, {Weights::Kind::kDouble, weights.data()}, nullptr};
  EXPECT_EQ(walk<int64_t>({from}, {0, 2}).mistake.row, 1);
  EXPECT_EQ(walk<int64_t>({from, from}, {0, 1}).mistake.row, 1);  // comes to node 5
  EXPECT_EQ(walk<int64_t>({weighted}, {0, 1}).mistake.edge, 1);
}

/// How often a walk from 0 over 1 goes to each node, against the definition.
void expect_node2vec(double p, double q) {
  // 0 - 1, 1 - 2, 1 - 3, 0 - 2 in both directions.
  const Edges<int64_t> edges{4, 4, {0, 1, 1, 2, 1, 3, 0, 2}, {1, 0, 2, 1, 3, 1, 2, 0}};
  const auto form = compress(edges.list());
  auto sorted = form;
  for (int row = 0; row < 4; ++row) {
    std::sort(sorted.indices.begin() + form.indptr[row],
              sorted.indices.begin() + form.indptr[row + 1]);
  }
  const int64_t kWalks = 40000;
  const std::vector<int64_t> seeds(kWalks, 0);
  for (const int64_t workers : {1, 3}) {
    std::vector<int64_t> nodes(3 * kWalks), eids(2 * kWalks);
    ASSERT_FALSE(node2vec_walk<int64_t>({form.rows(), {}, nullptr}, sorted.rows(), seeds.data(),
                                        kWalks, {p, q, 2}, 4, nodes.data(), eids.data(),
                                        threads(workers)));
    std::map<int64_t, double> share;
    double over = 0;
    for (int64_t i = 0; i < kWalks; ++i) {
      if (nodes[3 * i + 1] != 1) continue;
      ++over;
      ++share[nodes[3 * i + 2]];
    }
    EXPECT_NEAR(over / kWalks, 0.5, 0.02);
    const double sum = 1 / p + 1 + 1 / q;
    EXPECT_NEAR(share[0] / over, 1 / p / sum, 0.02);
    EXPECT_NEAR(share[2] / over, 1 / sum, 0.02);
    EXPECT_NEAR(share[3] / over, 1 / q / sum, 0.02);
  }
}

TEST(Node2vec, FollowsItsDefinition) {
  expect_node2vec(1, 1);
  expect_node2vec(0.25, 4);
  expect_node2vec(4, 0.5);
  // Draws that are accepted so rarely that the row is scanned instead.
  expect_node2vec(1e9, 1e9);
  expect_node2vec(1e-9, 1);
}

TEST(Node2vec, GoesBackWhereThereIsNoOtherWay) {
  const Edges<int64_t> edges{2, 2, {0, 1}, {1, 0}};
  const auto form = compress(edges.list());
  const std::vector<int64_t> seeds = {0};
  std::vector<int64_t> nodes(5), eids(4);
  ASSERT_FALSE(node2vec_walk<int64_t>({form.rows(), {}, nullptr}, form.rows(), seeds.data(), 1,
                                      {1e12, 1, 4}, 0, nodes.data(), eids.data(), {}));
  EXPECT_EQ(nodes, (std::vector<int64_t>{0, 1, 0, 1, 0}));
}

}  // namespace
}  // namespace smex::graph
