#include "partition/vertices/ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "ir/error.h"

namespace smex {
namespace {

/// Of all ways to end ranges.
double least_of_all(const std::vector<double>& sums, const std::vector<RangeWorker>& workers) {
  const size_t size = sums.size();
  std::vector<double> best(size, std::numeric_limits<double>::infinity());
  best[0] = 0;
  for (const RangeWorker& worker : workers) {
    std::vector<double> next(size, std::numeric_limits<double>::infinity());
    for (size_t begin = 0; begin < size; ++begin) {
      for (size_t end = begin; end < size; ++end) {
        const double own =
            begin == end ? 0 : (sums[end] - sums[begin]) / worker.speed + worker.offset;
        next[end] = std::min(next[end], std::max(best[begin], own));
      }
    }
    best = next;
  }
  return best.back();
}

TEST(Ranges, AreTheBestOfAll) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    const int vertices = std::uniform_int_distribution<>(0, 40)(random);
    std::vector<double> sums{0};
    for (int v = 0; v < vertices; ++v) {
      // Some cost nothing, some as much as hundreds of others.
      const double weight = std::exponential_distribution<>(1)(random);
      sums.push_back(sums.back() + (random() % 4 == 0 ? 0 : random() % 9 ? weight : 200 * weight));
    }
    std::vector<RangeWorker> workers(std::uniform_int_distribution<>(1, 9)(random));
    for (RangeWorker& worker : workers) {
      if (round % 2) worker.speed = std::uniform_real_distribution<>(0.2, 5)(random);
      if (round % 4 == 3) worker.offset = std::exponential_distribution<>(1)(random);
    }
    const std::vector<int64_t> ends = min_max_ranges(sums, workers);
    ASSERT_EQ(ends.size(), workers.size() + 1);
    EXPECT_EQ(ends.front(), 0);
    EXPECT_EQ(ends.back(), vertices);
    EXPECT_TRUE(std::is_sorted(ends.begin(), ends.end()));
    const double least = least_of_all(sums, workers);
    EXPECT_NEAR(range_seconds(sums, workers, ends), least, 1e-9 * (1 + least)) << "round " << round;
  }
}

TEST(Ranges, OfSumsThatDescendAreRefused) {
  EXPECT_THROW(min_max_ranges({0, 2, 1}, {{}, {}}), UserError);
  EXPECT_THROW(min_max_ranges({0, 1}, {}), UserError);
  EXPECT_THROW(min_max_ranges({0, 1}, {{.speed = 0}}), UserError);
}

}  // namespace
}  // namespace smex
