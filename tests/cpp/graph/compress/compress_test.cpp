#include "graph/compress/compress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "../edges.h"

namespace smex::graph {
namespace {

template <typename Index>
class Compress : public ::testing::Test {};
using Indices = ::testing::Types<int32_t, int64_t>;
TYPED_TEST_SUITE(Compress, Indices);

struct Size {
  int64_t rows, columns, edges;
  double hub;
};

// Around the bounds between one loop, one bucket and many; few rows, many rows, one huge row.
constexpr Size kSizes[] = {
    {0, 0, 0, 0},
    {1, 1, 0, 0},
    {1, 1, 1, 0},
    {5, 3, 1, 0},
    {7, 7, 8192, 0},
    {7, 7, 8193, 0},
    {1, 9, 20000, 0},
    {3, 9, 20001, 0.9},
    {40000, 13, 30000, 0},
    {1 << 20, 5, 9000, 0},
    {1000, 1000, 100000, 0.5},
    {255, 257, 70001, 1},
    {256, 256, 70001, 0},
    {257, 255, 70003, 0.1},
};

TYPED_TEST(Compress, IsAStableSortByRow) {
  for (const Size& size : kSizes) {
    const auto edges =
        random_edges<TypeParam>(size.rows, size.columns, size.edges, size.hub, size.edges);
    const auto expected = compress_by_definition(edges);
    for (const int64_t workers : {1, 2, 5}) {
      SCOPED_TRACE(testing::Message()
                   << size.rows << " rows, " << size.edges << " edges, " << workers << " workers");
      EXPECT_TRUE(compress(edges.list(), threads(workers)) == expected);
    }
  }
}

TYPED_TEST(Compress, KeepsGivenIds) {
  for (const int64_t count : {50, 60000}) {
    const auto edges = random_edges<TypeParam>(100, 100, count);
    std::vector<TypeParam> ids(count);
    std::iota(ids.rbegin(), ids.rend(), 0);
    EdgeList<TypeParam> list = edges.list();
    list.ids = ids.data();
    auto expected = compress_by_definition(edges);
    for (TypeParam& eid : expected.eids) eid = ids[eid];
    EXPECT_TRUE(compress(list, threads(3)) == expected);
  }
}

TYPED_TEST(Compress, NamesTheFirstInvalidEdge) {
  for (const int64_t count : {50, 60000}) {
    const auto good = random_edges<TypeParam>(100, 100, count);
    for (const TypeParam wrong : {TypeParam{-1}, TypeParam{100}}) {
      auto edges = good;
      edges.rows[count / 2] = wrong;
      edges.rows[count - 1] = wrong;
      EXPECT_THROW(compress(edges.list(), threads(3)), std::out_of_range);
      std::vector<TypeParam> indptr(101), indices(count), eids(count);
      const CompressedEdges<TypeParam> out{indptr.data(), indices.data(), eids.data()};
      EXPECT_EQ(compress_cpu(edges.list(), out, threads(3)), count / 2);
      edges = good;
      edges.columns[count / 3] = wrong;
      EXPECT_EQ(compress_cpu(edges.list(), out, threads(3)), count / 3);
      std::vector<TypeParam> ids(count, 0);
      ids[7] = wrong == 100 ? static_cast<TypeParam>(count) : wrong;
      EdgeList<TypeParam> list = good.list();
      list.ids = ids.data();
      EXPECT_EQ(compress_cpu(list, out, threads(3)), 7);
    }
  }
}

TEST(CompressWide, NumbersThatDoNotFitOneWord) {
  // 2^55 columns and 2^15 edges leave no bits for rows.
  auto edges = random_edges<int64_t>(1000, 1000, 30000);
  edges.num_columns = int64_t{1} << 55;
  for (int64_t& column : edges.columns) column += (int64_t{1} << 55) - 1000;
  EXPECT_TRUE(compress(edges.list(), threads(2)) == compress_by_definition(edges));
}

TYPED_TEST(Compress, ExpandIsTheInverse) {
  for (const Size& size : kSizes) {
    if (size.rows == 0) continue;
    const auto edges = random_edges<TypeParam>(size.rows, size.columns, size.edges, size.hub);
    const auto form = compress(edges.list());
    for (const int64_t workers : {1, 3}) {
      std::vector<TypeParam> rows(size.edges), columns(size.edges);
      EXPECT_EQ(expand_cpu(form.indptr.data(), form.indices.data(), form.eids.data(), size.rows,
                           size.edges, rows.data(), columns.data(), threads(workers)),
                -1);
      EXPECT_EQ(rows, edges.rows);
      EXPECT_EQ(columns, edges.columns);
      expand_cpu<TypeParam>(form.indptr.data(), nullptr, nullptr, size.rows, size.edges,
                            rows.data(), nullptr, threads(workers));
      auto sorted = edges.rows;
      std::sort(sorted.begin(), sorted.end());
      EXPECT_EQ(rows, sorted);
    }
  }
}

TYPED_TEST(Compress, ExpandRejectsEdgeIds) {
  const std::vector<TypeParam> indptr = {0, 2, 3}, indices = {0, 0, 0}, eids = {0, 3, 1};
  std::vector<TypeParam> rows(3), columns(3);
  EXPECT_EQ(expand_cpu(indptr.data(), indices.data(), eids.data(), 2, 3, rows.data(),
                       columns.data(), Workers{}),
            1);
}

TYPED_TEST(Compress, IndptrAscendsToTheNumberOfEdges) {
  const auto check = [](std::vector<TypeParam> indptr, int64_t edges) {
    return is_indptr(indptr.data(), static_cast<int64_t>(indptr.size()) - 1, edges);
  };
  EXPECT_TRUE(check({0}, 0));
  EXPECT_TRUE(check({0, 0, 3, 3}, 3));
  EXPECT_FALSE(check({0, 2, 1, 3}, 3));
  EXPECT_FALSE(check({1, 3}, 3));
  EXPECT_FALSE(check({0, 2}, 3));
}

TYPED_TEST(Compress, CountsIds) {
  for (const Size& size : kSizes) {
    const auto edges = random_edges<TypeParam>(size.rows, size.columns, size.edges, size.hub);
    std::vector<TypeParam> expected(size.rows), counts(size.rows);
    for (const TypeParam row : edges.rows) ++expected[row];
    for (const int64_t workers : {1, 4}) {
      EXPECT_EQ(
          count_cpu(edges.rows.data(), size.edges, size.rows, counts.data(), threads(workers)), -1);
      EXPECT_EQ(counts, expected);
    }
  }
  std::vector<TypeParam> ids(100000, 1), counts(3);
  ids[99998] = 3;
  EXPECT_EQ(count_cpu(ids.data(), 100000, 3, counts.data(), threads(2)), 99998);
  ids[5] = -1;
  EXPECT_EQ(count_cpu(ids.data(), 100000, 3, counts.data(), threads(2)), 5);
}

}  // namespace
}  // namespace smex::graph
