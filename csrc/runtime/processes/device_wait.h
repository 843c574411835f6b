#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace smex::runtime {

/// Looks after collectives whose kernels wait for other ranks on a device, where no thread does.
///
/// One group's are over in the order in which they were added, so that only one is looked at: the
/// last that there was when the one before was over.
class DeviceWait {
 public:
  struct Collective {
    std::function<bool()> is_over;
    uint64_t event = 0, digest = 0;  ///< of the pass
    std::vector<int> ranks;          ///< that take part, but for this one
  };
  /// Runs on a thread of its own, again and again, while a collective is not over.
  using OnWait =
      std::function<void(const Collective& collective, std::chrono::steady_clock::duration waited)>;
  explicit DeviceWait(OnWait on_wait,
                      std::chrono::milliseconds between_looks = std::chrono::milliseconds(100));
  /// Waits for a callback that runs.
  ~DeviceWait();
  DeviceWait(const DeviceWait&) = delete;
  DeviceWait& operator=(const DeviceWait&) = delete;

  void add(Collective collective);
  /// Nothing is looked at any more. A callback may call this.
  void stop();

 private:
  void run();

  const OnWait on_wait_;
  const std::chrono::milliseconds between_looks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Collective> last_;  ///< added, and not looked at yet
  bool is_stopped_ = false;
  std::thread thread_;  ///< from the first one on
};

}  // namespace smex::runtime
