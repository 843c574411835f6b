#pragma once

#include <algorithm>
#include <cstdint>

namespace smex::kernels {

// Independent sums in T, which the compiler keeps in vector registers; so many rounds of them are
// added up before the total, which is a double.
inline constexpr int kSumLanes = 16;
inline constexpr int64_t kSumBlock = kSumLanes * 64;

/// The sums of `term(i)` and `other(i)` for i below `inner`.
template <typename T, typename Term, typename Other>
void add_sums(int64_t inner, const Term& term, const Other& other, double& total,
              double& other_total) {
  for (int64_t start = 0; start < inner; start += kSumBlock) {
    const int64_t stop = std::min(inner, start + kSumBlock);
    T lanes[kSumLanes] = {}, other_lanes[kSumLanes] = {};
    int64_t i = start;
    for (; i + kSumLanes <= stop; i += kSumLanes) {
      for (int lane = 0; lane < kSumLanes; ++lane) {
        lanes[lane] += term(i + lane);
        other_lanes[lane] += other(i + lane);
      }
    }
    for (int lane = 0; i < stop; ++i, ++lane) {
      lanes[lane] += term(i);
      other_lanes[lane] += other(i);
    }
    for (int lane = 0; lane < kSumLanes; ++lane) {
      total += static_cast<double>(lanes[lane]);
      other_total += static_cast<double>(other_lanes[lane]);
    }
  }
}

}  // namespace smex::kernels
