#pragma once

#include <chrono>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace smex::runtime {

/// What a sleeping thread needs to wake up on a busy machine; a wait that is shorter is not slept.
inline constexpr std::chrono::microseconds kSpin{50};

inline void pause_core() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

/// Whether each of so many threads has a core, so that one may wait without sleeping.
inline bool have_cores(int num_threads) {
  static const auto kCores = static_cast<int>(std::thread::hardware_concurrency());
  return num_threads <= kCores;
}

/// Waits awake for `is_over` and tells whether it came true in time.
template <class Condition>
bool spin_until(const Condition& is_over) {
  constexpr int kLooks = 32;  // between two looks at the clock
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int look = 0; look < kLooks; ++look) {
      if (is_over()) return true;
      pause_core();
    }
  } while (std::chrono::steady_clock::now() < end);
  return is_over();
}

}  // namespace smex::runtime
