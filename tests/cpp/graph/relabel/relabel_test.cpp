#include "graph/relabel/relabel.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <unordered_map>
#include <vector>

namespace smex::graph {
namespace {

template <typename Index>
class Relabel : public ::testing::Test {};
using Indices = ::testing::Types<int32_t, int64_t>;
TYPED_TEST_SUITE(Relabel, Indices);

TYPED_TEST(Relabel, NumbersIdsByTheirFirstAppearance) {
  std::mt19937_64 draw(1);
  for (const int64_t count : {0, 1, 2, 1000}) {
    for (const int64_t range : {1, 10, 100000}) {
      // A table, a hash table, and a hash table of ids without a bound.
      for (const int64_t num_ids : {range, int64_t{1} << 30, int64_t{-1}}) {
        Relabeling<TypeParam> relabeling(2 * count, num_ids);
        std::unordered_map<int64_t, TypeParam> expected;
        for (int list = 0; list < 2; ++list) {
          std::vector<TypeParam> ids(count), numbers(count);
          for (TypeParam& id : ids) id = static_cast<TypeParam>(draw() % range);
          ASSERT_EQ(relabeling.add(ids.data(), count, numbers.data()), -1);
          for (int64_t i = 0; i < count; ++i) {
            const auto number = static_cast<TypeParam>(expected.size());
            EXPECT_EQ(numbers[i], expected.try_emplace(ids[i], number).first->second);
            EXPECT_EQ(relabeling.ids()[numbers[i]], ids[i]);
          }
        }
        EXPECT_EQ(relabeling.ids().size(), expected.size());
      }
    }
  }
}

TYPED_TEST(Relabel, AnyIdWhereThereIsNoBound) {
  const std::vector<TypeParam> ids = {-1, std::numeric_limits<TypeParam>::min(), 0, -1,
                                      std::numeric_limits<TypeParam>::max()};
  std::vector<TypeParam> numbers(5);
  Relabeling<TypeParam> relabeling(5, -1);
  EXPECT_EQ(relabeling.add(ids.data(), 5, numbers.data()), -1);
  EXPECT_EQ(numbers, (std::vector<TypeParam>{0, 1, 2, 0, 3}));
}

TYPED_TEST(Relabel, NamesTheFirstIdOutOfRange) {
  for (const int64_t num_ids : {int64_t{4}, int64_t{1} << 30}) {
    for (const int64_t wrong : {int64_t{-1}, num_ids}) {
      const std::vector<TypeParam> ids = {0, 3, static_cast<TypeParam>(wrong)};
      std::vector<TypeParam> numbers(3);
      Relabeling<TypeParam> relabeling(3, num_ids);
      EXPECT_EQ(relabeling.add(ids.data(), 3, numbers.data()), 2);
    }
  }
}

}  // namespace
}  // namespace smex::graph
