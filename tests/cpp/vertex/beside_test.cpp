#include "vertex/beside.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace smex::vertex {
namespace {

using Divided = std::vector<std::vector<size_t>>;

Divided divided(const std::vector<double>& work, int threads) {
  return tasks_of_threads(work, threads);
}

TEST(Beside, SmallTasksGetAThreadEach) {
  EXPECT_EQ(divided({1e5, 2e5}, 2), (Divided{{1}, {0}}));
  EXPECT_EQ(divided({1e5, 2e5}, 8), (Divided{{1}, {0}}));
  EXPECT_EQ(divided({5e5, 9e5, 4e5}, 2), (Divided{{1}, {0, 2}}));
}

TEST(Beside, OneThreadAndOneTaskRunInTurn) {
  EXPECT_TRUE(divided({1e5, 2e5}, 1).empty());
  EXPECT_TRUE(divided({1e5}, 4).empty());
  EXPECT_TRUE(divided({}, 4).empty());
}

TEST(Beside, NoThreadStartsForLessThanItsStart) {
  EXPECT_TRUE(divided({kWorkOfStart, kWorkOfStart}, 2).empty());
  EXPECT_FALSE(divided({2 * kWorkOfStart, 2 * kWorkOfStart}, 2).empty());
}

TEST(Beside, ALargeTaskKeepsAllThreads) {
  const double large = 1e9;
  EXPECT_TRUE(divided({large, 10}, 2).empty());
  EXPECT_TRUE(divided({large, large, large}, 2).empty());  // a thread would have two of them
  EXPECT_TRUE(divided({large, large}, 8).empty());
}

TEST(Beside, EachTaskRunsOnceAndNoThreadLongerThanInTurn) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> work(1 + random() % 9);
    for (double& one : work) one = static_cast<double>(random() % 3000000);
    const int threads = 1 + static_cast<int>(random() % 5);
    const Divided found = divided(work, threads);
    if (found.empty()) continue;
    EXPECT_LE(found.size(), static_cast<size_t>(threads));
    std::vector<int> times(work.size());
    for (const auto& tasks : found) {
      double busy = 0;
      for (const size_t task : tasks) {
        ++times[task];
        busy += work[task];
      }
      EXPECT_LT(busy, std::accumulate(work.begin(), work.end(), 0.0));
    }
    EXPECT_EQ(std::count(times.begin(), times.end(), 1), std::ssize(times));
  }
}

}  // namespace
}  // namespace smex::vertex
