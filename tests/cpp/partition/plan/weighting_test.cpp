#include "partition/plan/weighting.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "ir/error.h"
#include "partition/plan/plan.h"

namespace smex {
namespace {

TEST(CutByShares, GivesEachItsShareToHalfAUnit) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    const int64_t unit = 1 + static_cast<int64_t>(random() % 4);
    const int64_t units = static_cast<int64_t>(random() % 50);
    std::vector<double> shares;
    double all = 0;
    for (size_t n = 1 + random() % 6; n-- > 0;) {
      shares.push_back(static_cast<double>(random() % 4));
      all += shares.back();
    }
    const auto parts = cut_by_shares({7, 7 + units * unit}, shares, unit);
    ASSERT_EQ(parts.size(), shares.size());
    int64_t end = 7;
    double before = 0;
    for (size_t n = 0; n < parts.size(); ++n) {
      EXPECT_EQ(parts[n].lo, end);
      EXPECT_EQ(parts[n].size() % unit, 0);
      end = parts[n].hi;
      if (all == 0) continue;
      before += shares[n];
      const double exact = static_cast<double>(units) * before / all;
      EXPECT_LE(std::abs(static_cast<double>(end - 7) / static_cast<double>(unit) - exact), 0.5);
      if (shares[n] == 0) {
        EXPECT_TRUE(parts[n].empty());
      }
    }
    EXPECT_EQ(end, 7 + units * unit);
  }
}

TEST(CutByShares, WithoutSharesIsEven) {
  const auto parts = cut_by_shares({0, 9}, {0, 0, 0}, 1);
  EXPECT_EQ(parts, (std::vector<Interval>{{0, 3}, {3, 6}, {6, 9}}));
}

TEST(Weightings, OfStepsAreThoseOfTheWorkersBelow) {
  const Weighting speed{"speed", {4, 2, 1, 1}};
  const Mesh mesh{2, 2};
  EXPECT_EQ(shares_of_parts(speed, mesh, {-1, -1}, 0), (std::vector<double>{6, 2}));
  EXPECT_EQ(shares_of_parts(speed, mesh, {0, -1}, 1), (std::vector<double>{4, 2}));
  EXPECT_EQ(shares_of_parts(speed, mesh, {1, -1}, 1), (std::vector<double>{1, 1}));
  EXPECT_EQ(shares_of_parts(speed, mesh, {-1, -1}, 1), (std::vector<double>{5, 3}));
  EXPECT_EQ(shares_of_parts(speed, {2}, {-1}, 0), (std::vector<double>{6, 2}));
  EXPECT_THROW(shares_of_parts(speed, {3}, {-1}, 0), InternalError);
}

TEST(Weightings, CutWorkersTilesInProportion) {
  Graph graph;
  graph.give_weightings({{"speed", {4, 2, 1, 1}}});
  const Grain grain{1, nullptr, graph.weightings().get()};
  const auto rows = [&](const Choices& choices, int worker) {
    return value_tile({16, 3}, choices, {2, 2}, worker, {grain, grain}).region.dims[0].size();
  };
  const int by_speed = weighted(0, 1);
  EXPECT_EQ(rows({by_speed, by_speed}, 0), 8);
  EXPECT_EQ(rows({by_speed, by_speed}, 1), 4);
  EXPECT_EQ(rows({by_speed, by_speed}, 3), 2);
  EXPECT_EQ(rows({kReplicate, by_speed}, 0), 10);
  EXPECT_EQ(rows({0, by_speed}, 0), 5);  // of the half that both workers of the step share
  EXPECT_EQ(rows({0, by_speed}, 3), 4);
  EXPECT_FALSE(value_tile({16, 3}, {only_at(1), kReplicate}, {2, 2}, 0, {grain, grain}).held);
  EXPECT_TRUE(value_tile({16, 3}, {only_at(1), kReplicate}, {2, 2}, 2, {grain, grain}).held);
}

TEST(Weightings, ThatLeaveNothingAreRefused) {
  Graph graph;
  const auto give = [&](std::vector<double> shares) {
    graph.give_weightings({{"mine", std::move(shares)}});
  };
  EXPECT_THROW(give({0, 0}), UserError);
  EXPECT_THROW(give({1, -1}), UserError);
  EXPECT_THROW(give({1, std::numeric_limits<double>::infinity()}), UserError);
  EXPECT_THROW(give({}), UserError);
  EXPECT_TRUE(graph.weightings()->empty());
}

TEST(Weightings, UnknownToTheGraphAreAnError) {
  const Grain grain;
  EXPECT_THROW(value_tile({16}, {weighted(0, 1)}, {2}, 0, {grain}), InternalError);
}

}  // namespace
}  // namespace smex
