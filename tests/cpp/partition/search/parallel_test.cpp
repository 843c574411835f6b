#include "partition/search/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace smex {
namespace {

TEST(ForAll, RunsEveryTaskOnce) {
  for (const size_t count : {0, 1, 2, 100}) {
    std::vector<int> runs(count, 0);
    for_all(count, [&](size_t i) { ++runs[i]; });
    EXPECT_EQ(runs, std::vector<int>(count, 1));
  }
}

TEST(ForAll, ThrowsWhatTheFirstTaskThrowsWhenAllAreDone) {
  std::atomic<int> done = 0;
  try {
    for_all(20, [&](size_t i) {
      ++done;
      if (i % 7 == 3) throw std::runtime_error("task " + std::to_string(i));
    });
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "task 3");
  }
  EXPECT_EQ(done, 20);
}

}  // namespace
}  // namespace smex
