#include "graph/lookup/lookup.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "../edges.h"

namespace smex::graph {
namespace {

template <typename Index>
class Lookup : public ::testing::Test {
 protected:
  Lookup() : edges(random_edges<Index>(30, 25, 2000, 0.4)), form(compress(edges.list())) {
    for (size_t i = 0; i < edges.rows.size(); ++i) {
      const Index id = static_cast<Index>(i);
      pairs[{edges.rows[i], edges.columns[i]}].push_back(id);
    }
    // Compressed by column first, then by row: columns ascend.
    const EdgeList<Index> turned{edges.columns.data(), edges.rows.data(), nullptr, 2000, 25, 30};
    const auto by_column = compress(turned);
    std::vector<Index> columns(2000);
    expand_cpu<Index>(by_column.indptr.data(), nullptr, nullptr, 25, 2000, columns.data(), nullptr,
                      Workers{});
    sorted = compress<Index>(
        {by_column.indices.data(), columns.data(), by_column.eids.data(), 2000, 30, 25});
    for (Index row = 0; row < 30; ++row) {
      for (Index column = -1; column < 26; ++column) {
        from.push_back(row);
        to.push_back(column);
      }
    }
  }

  Edges<Index> edges;
  Compressed<Index> form, sorted;
  std::map<std::pair<Index, Index>, std::vector<Index>> pairs;
  std::vector<Index> from, to;  // every pair, and columns that do not exist
};
using Indices = ::testing::Types<int32_t, int64_t>;
TYPED_TEST_SUITE(Lookup, Indices);

TYPED_TEST(Lookup, SortedSearchFindsAllParallelEdges) {
  const int64_t count = this->from.size();
  for (const int64_t workers : {1, 3}) {
    std::vector<TypeParam> first(count), found(count);
    ASSERT_EQ(find_sorted(this->sorted.rows(), this->from.data(), this->to.data(), count,
                          first.data(), found.data(), threads(workers)),
              -1);
    for (int64_t i = 0; i < count; ++i) {
      const auto& expected = this->pairs[{this->from[i], this->to[i]}];
      const auto begin = this->sorted.eids.begin() + first[i];
      EXPECT_EQ(std::vector<TypeParam>(begin, begin + found[i]), expected);
    }
  }
}

TYPED_TEST(Lookup, ScanFindsTheLeastEdge) {
  const int64_t count = this->from.size();
  std::vector<TypeParam> eids(count);
  for (const auto* form : {&this->form, &this->sorted}) {
    ASSERT_EQ(
        find_scan(form->rows(), this->from.data(), this->to.data(), count, eids.data(), threads(3)),
        -1);
    for (int64_t i = 0; i < count; ++i) {
      const auto& expected = this->pairs[{this->from[i], this->to[i]}];
      EXPECT_EQ(eids[i], expected.empty() ? -1 : expected.front());
    }
  }
}

TYPED_TEST(Lookup, NamesTheQueryWhoseRowDoesNotExist) {
  const std::vector<TypeParam> from = {0, 30}, to = {0, 0};
  std::vector<TypeParam> a(2), b(2);
  EXPECT_EQ(
      find_sorted(this->sorted.rows(), from.data(), to.data(), 2, a.data(), b.data(), Workers{}),
      1);
  EXPECT_EQ(find_scan(this->form.rows(), from.data(), to.data(), 2, a.data(), Workers{}), 1);
}

TYPED_TEST(Lookup, PairsAreNumberedInOrder) {
  std::erase_if(this->pairs, [](const auto& entry) { return entry.second.empty(); });
  std::vector<TypeParam> groups(2000);
  const int64_t size = number_pairs(this->sorted.rows(), groups.data());
  ASSERT_EQ(size, static_cast<int64_t>(this->pairs.size()));
  std::vector<TypeParam> rows(size), columns(size), counts(size);
  list_pairs(this->sorted.rows(), rows.data(), columns.data(), counts.data());
  TypeParam group = 0;
  for (const auto& [pair, eids] : this->pairs) {
    EXPECT_EQ(rows[group], pair.first);
    EXPECT_EQ(columns[group], pair.second);
    EXPECT_EQ(counts[group], static_cast<TypeParam>(eids.size()));
    for (const TypeParam eid : eids) EXPECT_EQ(groups[eid], group);
    ++group;
  }
}

TYPED_TEST(Lookup, ParallelEdgesAreNoticed) {
  EXPECT_TRUE(has_parallel(this->sorted.rows(), threads(2)));
  const std::vector<TypeParam> indptr = {0, 2, 4, 4}, indices = {0, 1, 1, 2}, same = {0, 1, 2, 2};
  EXPECT_FALSE(has_parallel<TypeParam>({3, 4, indptr.data(), indices.data(), nullptr}, Workers{}));
  EXPECT_TRUE(has_parallel<TypeParam>({3, 4, indptr.data(), same.data(), nullptr}, Workers{}));
  EXPECT_FALSE(has_parallel<TypeParam>({0, 0, indptr.data(), nullptr, nullptr}, Workers{}));
}

}  // namespace
}  // namespace smex::graph
