#include "edges/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

namespace smex {
namespace {

Workers threads(int64_t count) {
  return {.count = count, .run = [](int64_t count, const Workers::Task& task) {
            std::vector<std::thread> started;
            for (int64_t i = 0; i < count; ++i) started.emplace_back([&task, i] { task(i); });
            for (std::thread& thread : started) thread.join();
          }};
}

TEST(Workers, PiecesAreDoneOnceEach) {
  for (const int64_t size : {0, 1, 2, 7, 64, 1000}) {
    for (const int64_t count : {1, 2, 3, 8}) {
      std::vector<std::atomic<int>> done(size);
      threads(count).for_pieces(size, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++done[i];
      });
      for (int64_t i = 0; i < size; ++i) EXPECT_EQ(done[i], 1) << i << " of " << size;
    }
  }
}

TEST(Workers, OneWorkerTakesAllPiecesAtOnce) {
  std::vector<std::pair<int64_t, int64_t>> calls;
  Workers{}.for_pieces(1000, [&](int64_t begin, int64_t end) { calls.push_back({begin, end}); });
  EXPECT_EQ(calls, (std::vector<std::pair<int64_t, int64_t>>{{0, 1000}}));
}

}  // namespace
}  // namespace smex
