#include "graph/select/select.h"

#include <gtest/gtest.h>

#include "../edges.h"

namespace smex::graph {
namespace {

/// (row or place, column, edge id) of each edge taken.
template <typename Index>
struct Taken {
  std::vector<Index> owners, columns, eids;
  bool operator==(const Taken&) const = default;

  explicit Taken(int64_t size = 0) : owners(size), columns(size), eids(size) {}
  void add(int64_t owner, Index column, Index eid) {
    owners.push_back(static_cast<Index>(owner));
    columns.push_back(column);
    eids.push_back(eid);
  }
};

template <typename Index>
class Select : public ::testing::Test {};
using Indices = ::testing::Types<int32_t, int64_t>;
TYPED_TEST_SUITE(Select, Indices);

TYPED_TEST(Select, TakesRowsOneAfterAnother) {
  const auto form = compress(random_edges<TypeParam>(50, 20, 200000, 0.7).list());
  const EdgeRows<TypeParam> rows = form.rows();
  for (const std::vector<TypeParam>& chosen :
       {std::vector<TypeParam>{}, {1}, {49, 1, 0, 1, 7}, std::vector<TypeParam>(30, 3)}) {
    Taken<TypeParam> expected;
    for (const TypeParam row : chosen) {
      for (int64_t p = rows.begin(row); p < rows.end(row); ++p) {
        expected.add(row, form.indices[p], form.eids[p]);
      }
    }
    const int64_t count = chosen.size();
    std::vector<int64_t> offsets(count + 1);
    ASSERT_EQ(row_offsets(rows, chosen.data(), count, offsets.data()), -1);
    for (const int64_t workers : {1, 3}) {
      Taken<TypeParam> taken(offsets.back());
      take_rows(rows, chosen.data(), count, offsets.data(), taken.columns.data(),
                taken.owners.data(), taken.eids.data(), threads(workers));
      EXPECT_TRUE(taken == expected) << count << " rows, " << workers << " workers";
    }
  }
}

TYPED_TEST(Select, NamesTheFirstRowThatDoesNotExist) {
  const auto form = compress(random_edges<TypeParam>(5, 5, 10).list());
  std::vector<int64_t> offsets(4);
  for (const TypeParam wrong : {TypeParam{-1}, TypeParam{5}}) {
    const std::vector<TypeParam> chosen = {0, wrong, 1};
    EXPECT_EQ(row_offsets(form.rows(), chosen.data(), 3, offsets.data()), 1);
  }
  const std::vector<TypeParam> broken = {0, 3, 2};
  const EdgeRows<TypeParam> rows{2, 10, broken.data(), form.indices.data(), nullptr};
  const std::vector<TypeParam> chosen = {0, 1};
  EXPECT_EQ(row_offsets(rows, chosen.data(), 2, offsets.data()), 1);
}

TYPED_TEST(Select, InducesTheEdgesBetweenChosenNodes) {
  const int64_t kColumns = 40;
  const auto form = compress(random_edges<TypeParam>(300, kColumns, 5000, 0.3).list());
  const EdgeRows<TypeParam> rows = form.rows();
  std::vector<TypeParam> chosen, names(kColumns, -1);
  for (TypeParam row = 299; row >= 0; row -= 2) chosen.push_back(row);
  for (TypeParam k = 0; k < 10; ++k) names[3 * k] = 9 - k;
  Taken<TypeParam> expected;
  for (size_t i = 0; i < chosen.size(); ++i) {
    for (int64_t p = rows.begin(chosen[i]); p < rows.end(chosen[i]); ++p) {
      if (form.indices[p] % 3 == 0 && form.indices[p] < 30) {
        expected.add(i, 9 - form.indices[p] / 3, form.eids[p]);
      }
    }
  }
  for (const int64_t workers : {1, 3}) {
    std::vector<int64_t> offsets(chosen.size() + 1);
    ASSERT_EQ(induced_offsets(rows, chosen.data(), chosen.size(), names.data(), kColumns,
                              offsets.data(), threads(workers)),
              -1);
    Taken<TypeParam> taken(offsets.back());
    take_induced(rows, chosen.data(), chosen.size(), names.data(), offsets.data(),
                 taken.owners.data(), taken.columns.data(), taken.eids.data(), threads(workers));
    EXPECT_TRUE(taken == expected);
  }
  std::vector<int64_t> offsets(chosen.size() + 1);
  EXPECT_GE(induced_offsets(rows, chosen.data(), chosen.size(), names.data(), /*num_columns=*/20,
                            offsets.data(), Workers{}),
            0);
}

}  // namespace
}  // namespace smex::graph
