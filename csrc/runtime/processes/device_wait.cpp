#include "runtime/processes/device_wait.h"

#include <utility>

namespace smex::runtime {

DeviceWait::DeviceWait(OnWait on_wait, std::chrono::milliseconds between_looks)
    : on_wait_(std::move(on_wait)), between_looks_(between_looks) {}

DeviceWait::~DeviceWait() {
  stop();
  if (thread_.joinable()) thread_.join();
}

void DeviceWait::add(Collective collective) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_) return;
    last_ = std::move(collective);
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_all();
}

void DeviceWait::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
}

void DeviceWait::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_stopped_ || last_; });
    if (is_stopped_) return;
    const Collective looked_at = *std::exchange(last_, std::nullopt);
    const auto begin = std::chrono::steady_clock::now();
    // What is over soon is over when it is looked at for the first time.
    while (!changed_.wait_for(lock, between_looks_, [&] { return is_stopped_; })) {
      lock.unlock();
      const bool is_over = looked_at.is_over();
      if (!is_over) on_wait_(looked_at, std::chrono::steady_clock::now() - begin);
      lock.lock();
      if (is_over) break;
    }
    if (is_stopped_) return;
  }
}

}  // namespace smex::runtime
