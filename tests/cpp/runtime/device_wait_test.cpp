#include "runtime/processes/device_wait.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>

namespace smex::runtime {
namespace {

using std::chrono::milliseconds;
using Flag = std::shared_ptr<std::atomic<bool>>;

Flag flag() { return std::make_shared<std::atomic<bool>>(false); }

DeviceWait::Collective collective(uint64_t event, const Flag& is_over) {
  return {[is_over] { return is_over->load(); }, event, event + 100, {1}};
}

/// Counts the calls for each event.
class Calls {
 public:
  DeviceWait::OnWait counted() {
    return [this](const DeviceWait::Collective& waiting, auto waited) {
      const std::lock_guard lock(mutex_);
      ++counts_.at(waiting.event);
      waited_ = waited;
      digest_ = waiting.digest;
      changed_.notify_all();
    };
  }
  /// Whether there are so many within a time that no machine needs.
  bool reach(uint64_t event, int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60),
                             [&] { return counts_.at(event) >= count; });
  }
  int count(uint64_t event) {
    const std::lock_guard lock(mutex_);
    return counts_.at(event);
  }
  std::chrono::steady_clock::duration waited() {
    const std::lock_guard lock(mutex_);
    return waited_;
  }
  uint64_t digest() {
    const std::lock_guard lock(mutex_);
    return digest_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<int, 4> counts_{};
  std::chrono::steady_clock::duration waited_{};
  uint64_t digest_ = 0;
};

TEST(DeviceWait, TellsAgainAndAgainOfWhatIsNotOver) {
  Calls calls;
  DeviceWait wait(calls.counted(), milliseconds(1));
  wait.add(collective(0, flag()));
  EXPECT_TRUE(calls.reach(0, 3));
  EXPECT_GE(calls.waited(), milliseconds(3));
  EXPECT_EQ(calls.digest(), 100);
}

TEST(DeviceWait, LooksAtTheLastOnceTheFirstIsOver) {
  Calls calls;
  DeviceWait wait(calls.counted(), milliseconds(1));
  const Flag first = flag();
  wait.add(collective(0, first));
  ASSERT_TRUE(calls.reach(0, 1));  // it is the one that is looked at
  wait.add(collective(1, flag()));
  wait.add(collective(2, flag()));
  *first = true;
  EXPECT_TRUE(calls.reach(2, 2));
  EXPECT_EQ(calls.count(1), 0);
}

TEST(DeviceWait, IsSilentOfWhatIsOver) {
  Calls calls;
  DeviceWait wait(calls.counted(), milliseconds(1));
  const Flag over = flag();
  *over = true;
  wait.add(collective(0, over));
  wait.add(collective(1, flag()));  // after it, so that it has been looked at
  EXPECT_TRUE(calls.reach(1, 1));
  EXPECT_EQ(calls.count(0), 0);
}

TEST(DeviceWait, CanBeStoppedByACallback) {
  std::atomic<int> count{0};
  DeviceWait* self = nullptr;
  DeviceWait wait(
      [&](const auto&, auto) {
        ++count;
        self->stop();
      },
      milliseconds(1));
  self = &wait;
  const Flag never = flag();
  wait.add(collective(0, never));
  while (count == 0) std::this_thread::yield();
  wait.add(collective(1, never));
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(count, 1);
}

TEST(DeviceWait, EndsWhileItWaits) {
  const Flag never = flag();
  for (int times = 0; times < 20; ++times) {
    DeviceWait wait([](const auto&, auto) {}, milliseconds(1));
    if (times % 2 == 0) wait.add(collective(0, never));
  }
  EXPECT_EQ(never.use_count(), 1);
}

}  // namespace
}  // namespace smex::runtime
