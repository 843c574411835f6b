#include "ir/region.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "ir/error.h"

namespace smex {
namespace {

using Point = std::vector<int64_t>;
using Points = std::set<Point>;

constexpr int64_t kGrid = 5;  // regions live in [0, kGrid)^rank
/// The dimension whose indices are listed in part of the random regions.
constexpr size_t kListed = 1;
constexpr int kCases = 400;

/// Every grid point of the region, found by testing each point of the grid.
Points points_of(const Region& region) {
  Points points;
  int64_t total = 1;
  for (size_t d = 0; d < region.rank(); ++d) total *= kGrid;
  for (int64_t code = 0; code < total; ++code) {
    Point point;
    bool inside = true;
    int64_t rest = code;
    for (size_t d = 0; d < region.rank(); ++d) {
      point.push_back(rest % kGrid);
      rest /= kGrid;
      inside = inside && region.dims[d].lo <= point.back() && point.back() < region.dims[d].hi;
      inside = inside && (!region.is_listed(d) || region.list->contains(point.back()));
    }
    if (inside) points.insert(point);
  }
  return points;
}

Region random_region(std::mt19937& random, size_t rank) {
  std::uniform_int_distribution<int64_t> corner(0, kGrid);
  Region box;
  for (size_t d = 0; d < rank; ++d) {
    int64_t lo = corner(random);
    int64_t hi = corner(random);
    if (hi < lo && random() % 4) std::swap(lo, hi);  // now and then an empty one
    box.dims.push_back({lo, hi});
  }
  if (rank <= kListed || random() % 3 == 0) return box;
  std::vector<int64_t> indices;
  for (int64_t index = 0; index < kGrid; ++index) {
    if (random() % 2) indices.push_back(index);
  }
  return Region::listed(std::move(box.dims), kListed, IndexList(indices));
}

/// Seed and rank of the random regions.
class RandomRegions : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  std::mt19937 random_{static_cast<unsigned>(std::get<0>(GetParam()))};
  size_t rank_ = static_cast<size_t>(std::get<1>(GetParam()));
};

TEST_P(RandomRegions, IntersectHoldsTheCommonPoints) {
  for (int i = 0; i < kCases; ++i) {
    const Region a = random_region(random_, rank_);
    const Region b = random_region(random_, rank_);
    Points expected;
    const Points in_b = points_of(b);
    for (const Point& point : points_of(a)) {
      if (in_b.count(point)) expected.insert(point);
    }
    const Region both = intersect(a, b);
    EXPECT_EQ(points_of(both), expected) << a.str() << " " << b.str();
    EXPECT_EQ(both.numel(), static_cast<int64_t>(expected.size()));
    EXPECT_EQ(both.empty(), expected.empty());
  }
}

TEST_P(RandomRegions, SubtractIsADisjointCoverOfTheRest) {
  for (int i = 0; i < kCases; ++i) {
    const Region a = random_region(random_, rank_);
    const Region b = random_region(random_, rank_);
    Points expected = points_of(a);
    for (const Point& point : points_of(b)) expected.erase(point);
    const std::vector<Region> rest = subtract(a, b);
    EXPECT_LE(rest.size(), std::max<size_t>(1, 2 * rank_));
    Points found;
    for (const Region& box : rest) {
      EXPECT_FALSE(box.empty()) << box.str();
      for (const Point& point : points_of(box)) {
        EXPECT_TRUE(found.insert(point).second) << "overlap of " << a.str() << " - " << b.str();
      }
    }
    EXPECT_EQ(found, expected) << a.str() << " - " << b.str();
  }
}

TEST_P(RandomRegions, ContainsIsTheSubsetRelation) {
  for (int i = 0; i < kCases; ++i) {
    const Region a = random_region(random_, rank_);
    const Region b = random_region(random_, rank_);
    const Points in_a = points_of(a);
    const Points in_b = points_of(b);
    const bool subset = std::includes(in_a.begin(), in_a.end(), in_b.begin(), in_b.end());
    EXPECT_EQ(a.contains(b), subset) << a.str() << " " << b.str();
    EXPECT_TRUE(a.contains(intersect(a, b)));
  }
}

TEST_P(RandomRegions, RelativeToCountsFromTheOrigin) {
  for (int i = 0; i < kCases; ++i) {
    const Region origin = random_region(random_, rank_);
    const Region inside = intersect(random_region(random_, rank_), origin);
    if (inside.empty()) continue;
    // A point's coordinates are how many of the origin's indices are below.
    std::vector<std::vector<int64_t>> below(rank_);
    for (size_t d = 0; d < rank_; ++d) {
      int64_t count = 0;
      for (int64_t index = 0; index < kGrid; ++index) {
        below[d].push_back(count);
        count += origin.dims[d].lo <= index && index < origin.dims[d].hi &&
                 (!origin.is_listed(d) || origin.list->contains(index));
      }
    }
    Points expected;
    for (Point point : points_of(inside)) {
      for (size_t d = 0; d < rank_; ++d) point[d] = below[d][point[d]];
      expected.insert(point);
    }
    EXPECT_EQ(points_of(inside.relative_to(origin)), expected) << inside.str() << origin.str();
    EXPECT_EQ(points_of(origin.relative_to(origin)), points_of(Region::whole(origin.shape())));
  }
}

TEST_P(RandomRegions, EqualOnesHaveTheSamePoints) {
  for (int i = 0; i < kCases; ++i) {
    const Region a = random_region(random_, rank_);
    const Region b = random_region(random_, rank_);
    if (!a.empty() && !b.empty()) EXPECT_EQ(a == b, points_of(a) == points_of(b));
    if (!a.empty()) {
      EXPECT_EQ(intersect(a, a), a);
      Shape shape;
      for (size_t d = 0; d < rank_; ++d) shape.push_back(a.size(d));
      EXPECT_EQ(a.shape(), shape);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRegions,
                         testing::Combine(testing::Values(1, 2), testing::Values(0, 1, 2, 3)));

TEST(Region, RankZeroHoldsOneElement) {
  const Region scalar = Region::whole({});
  EXPECT_EQ(scalar.numel(), 1);
  EXPECT_FALSE(scalar.empty());
  EXPECT_EQ(scalar.str(), "[]");
  EXPECT_TRUE(subtract(scalar, scalar).empty());
}

TEST(Region, RelativeToMovesTheOrigin) {
  const Region box{{{3, 5}, {2, 8}}};
  const Region origin{{{1, 9}, {2, 9}}};
  EXPECT_EQ(box.relative_to(origin), (Region{{{2, 4}, {0, 6}}}));
  EXPECT_EQ(box.shape(), (Shape{2, 6}));
  EXPECT_EQ(box.str(), "[3:5, 2:8]");
}

TEST(Region, ListsOfConsecutiveIndicesAreIntervals) {
  const Region box = Region::listed({{0, 9}, {2, 8}}, 0, IndexList({3, 4, 5}));
  EXPECT_EQ(box, (Region{{{3, 6}, {2, 8}}}));
  EXPECT_FALSE(box.list);
}

TEST(Region, ListsArePrintedByTheirHull) {
  const Region region = Region::listed({{0, 9}, {2, 8}}, 0, IndexList({1, 3, 4}));
  EXPECT_EQ(region.str(), "[1:5 (3 of 4), 2:8]");
  EXPECT_EQ(region.numel(), 18);
}

TEST(Region, OnlyOneDimensionIsListed) {
  const Region rows = Region::listed({{0, 9}, {0, 9}}, 0, IndexList({1, 3}));
  const Region columns = Region::listed({{0, 9}, {0, 9}}, 1, IndexList({1, 3}));
  EXPECT_THROW(intersect(rows, columns), InternalError);
  EXPECT_EQ(intersect(rows, Region::listed({{0, 9}, {0, 9}}, 1, IndexList({1, 2}))),
            Region::listed({{0, 9}, {1, 3}}, 0, IndexList({1, 3})));
}

TEST(Region, IntersectOfDifferentRanksIsAnError) {
  EXPECT_THROW(intersect(Region::whole({2}), Region::whole({2, 2})), InternalError);
}

}  // namespace
}  // namespace smex
