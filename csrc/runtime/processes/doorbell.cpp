#include "runtime/processes/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace smex::runtime {
namespace {

/// Without FUTEX_PRIVATE_FLAG: other processes sleep and wake at the same address.
void futex(const std::atomic<uint32_t>& word, int operation, uint32_t value,
           const timespec* timeout) {
  syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

}  // namespace

void Doorbell::ring() {
  rings_.fetch_add(1);
  if (sleepers_.load() > 0) futex(rings_, FUTEX_WAKE, INT_MAX, nullptr);
}

void Doorbell::wait(uint32_t seen, std::chrono::microseconds most) {
  sleepers_.fetch_add(1);
  if (rings_.load() == seen) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(most);
    const timespec timeout{static_cast<time_t>(seconds.count()),
                           std::chrono::nanoseconds(most - seconds).count()};
    futex(rings_, FUTEX_WAIT, seen, &timeout);
  }
  sleepers_.fetch_sub(1);
}

}  // namespace smex::runtime
