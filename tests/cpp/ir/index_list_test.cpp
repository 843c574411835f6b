#include "ir/index_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "ir/error.h"

namespace smex {
namespace {

using Set = std::set<int64_t>;

constexpr int64_t kEnd = 60;

/// Of each length of runs: lists that are kept one by one, and as runs.
IndexList random_list(std::mt19937& random) {
  std::vector<int64_t> indices;
  const auto longest = static_cast<int64_t>(1 + random() % 12);
  for (int64_t next = static_cast<int64_t>(random() % 8); next < kEnd;) {
    for (auto left = static_cast<int64_t>(random() % longest) + 1; left > 0 && next < kEnd;
         --left) {
      indices.push_back(next++);
    }
    next += static_cast<int64_t>(1 + random() % 5);
  }
  if (random() % 12 == 0) indices.clear();
  return IndexList(indices);
}

Set set_of(const IndexList& list) {
  const std::vector<int64_t> indices = list.indices();
  EXPECT_TRUE(std::is_sorted(indices.begin(), indices.end()));
  EXPECT_EQ(static_cast<int64_t>(indices.size()), list.size());
  return {indices.begin(), indices.end()};
}

IndexList list_of(const Set& set) {
  return IndexList(std::vector<int64_t>(set.begin(), set.end()));
}

template <typename Algorithm>
IndexList by_sets(const IndexList& a, const IndexList& b, const Algorithm& algorithm) {
  const Set one = set_of(a), other = set_of(b);
  Set result;
  algorithm(one.begin(), one.end(), other.begin(), other.end(),
            std::inserter(result, result.end()));
  return list_of(result);
}

class RandomLists : public testing::TestWithParam<int> {
 protected:
  std::mt19937 random_{static_cast<unsigned>(GetParam())};
};

TEST_P(RandomLists, TellWhereIndicesAre) {
  for (int n = 0; n < 200; ++n) {
    const IndexList list = random_list(random_);
    const std::vector<int64_t> indices = list.indices();
    for (size_t p = 0; p < indices.size(); ++p) {
      EXPECT_EQ(list.at(static_cast<int64_t>(p)), indices[p]);
    }
    EXPECT_THROW(list.at(list.size()), InternalError);
    for (int64_t index = -1; index <= kEnd; ++index) {
      const auto below = std::lower_bound(indices.begin(), indices.end(), index);
      EXPECT_EQ(list.below(index), below - indices.begin());
      EXPECT_EQ(list.contains(index), below != indices.end() && *below == index);
    }
    if (indices.empty()) continue;
    EXPECT_EQ(list.hull(), (Interval{indices.front(), indices.back() + 1}));
    EXPECT_EQ(list.is_interval(), list.hull().size() == list.size());
  }
}

TEST_P(RandomLists, RunsAreThoseOfARange) {
  for (int n = 0; n < 200; ++n) {
    const IndexList list = random_list(random_);
    const auto lo = static_cast<int64_t>(random_() % kEnd);
    const Interval within{lo, lo + static_cast<int64_t>(random_() % kEnd)};
    Set expected;
    for (const int64_t index : list.indices()) {
      if (within.contains({index, index + 1})) expected.insert(index);
    }
    Set found;
    int64_t last = -2;
    for (auto run = list.runs(within); run; ++run) {
      EXPECT_GT(run->lo, last) << "a run ends where the next index is missing";
      for (int64_t index = run->lo; index < run->hi; ++index) found.insert(index);
      last = run->hi;
    }
    EXPECT_EQ(found, expected);
    EXPECT_EQ(list.count(within), static_cast<int64_t>(expected.size()));
  }
}

TEST_P(RandomLists, AlgebraIsThatOfSets) {
  for (int n = 0; n < 400; ++n) {
    const IndexList a = random_list(random_), b = random_list(random_);
    const auto common = [](auto... args) { std::set_intersection(args...); };
    const auto rest = [](auto... args) { std::set_difference(args...); };
    const auto all = [](auto... args) { std::set_union(args...); };
    EXPECT_EQ(intersect(a, b), by_sets(a, b, common));
    EXPECT_EQ(count_common(a, b), intersect(a, b).size());
    EXPECT_EQ(subtract(a, b), by_sets(a, b, rest));
    EXPECT_EQ(unite(a, b), by_sets(a, b, all));
    EXPECT_EQ(a == b, set_of(a) == set_of(b));
  }
}

TEST_P(RandomLists, PositionsAreThoseInAnother) {
  for (int n = 0; n < 200; ++n) {
    const IndexList origin = random_list(random_);
    const IndexList list = intersect(random_list(random_), origin);
    const IndexList found = positions(list, origin);
    ASSERT_EQ(found.size(), list.size());
    for (int64_t p = 0; p < list.size(); ++p) EXPECT_EQ(origin.at(found.at(p)), list.at(p));
    EXPECT_EQ(shifted(shifted(list, 7), -7), list);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomLists, testing::Values(1, 2, 3));

TEST(IndexList, RefusesWhatDoesNotAscend) {
  EXPECT_THROW(IndexList({1, 1}), InternalError);
  EXPECT_THROW(IndexList({2, 1}), InternalError);
  EXPECT_THROW(positions(IndexList({1, 2}), IndexList({2, 3})), InternalError);
}

TEST(IndexList, AnIntervalIsOneRun) {
  EXPECT_EQ(IndexList::of({3, 9}), IndexList({3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(IndexList::of({3, 4}), IndexList({3})) << "whatever its length";
  EXPECT_TRUE(IndexList::of({3, 3}).empty());
}

}  // namespace
}  // namespace smex
