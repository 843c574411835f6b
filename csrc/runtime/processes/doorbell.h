#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace smex::runtime {

/// Wakes the threads of a process that wait for something to happen; lies in memory that others
/// have mapped, who ring it too.
///
/// A waiter reads `rung`, looks whether it has to wait, and waits for another number: what happens
/// in between is not missed.
class Doorbell {
 public:
  uint32_t rung() const { return rings_.load(); }
  void ring();
  /// Sleeps until the bell has been rung since it was `seen`, or the time is over.
  void wait(uint32_t seen, std::chrono::microseconds most);

 private:
  std::atomic<uint32_t> rings_{0};
  std::atomic<uint32_t> sleepers_{0};
};

static_assert(std::atomic<uint32_t>::is_always_lock_free);

}  // namespace smex::runtime
