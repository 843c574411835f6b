#pragma once

#include <cmath>
#include <limits>

#include "host_device.h"

namespace smex::kernels {

/// The largest of some scores, and the sum of `exp(score - largest)`, kept up while scores come in
/// (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018, §3).
///
/// A NaN stays. Scores of minus infinity count nothing; where there are no others, the sum is 0.
template <typename C>
struct SoftmaxStatistics {
  C largest = -std::numeric_limits<C>::infinity();
  C sum = 0;

  /// `exp(score - largest)`; infinity minus infinity would be no number.
  static SMEX_HOST_DEVICE C weight(C score, C largest) {
    return score == -std::numeric_limits<C>::infinity() ? C(0) : std::exp(score - largest);
  }

  SMEX_HOST_DEVICE void merge(C other_largest, C other_sum) {
    const bool is_larger = other_largest > largest || other_largest != other_largest;
    const C next = is_larger ? other_largest : largest;
    sum = sum * weight(largest, next) + other_sum * weight(other_largest, next);
    largest = next;
  }
  SMEX_HOST_DEVICE void merge(const SoftmaxStatistics& other) { merge(other.largest, other.sum); }
  SMEX_HOST_DEVICE void add(C score) { merge(score, C(1)); }
  SMEX_HOST_DEVICE C result(C score) const { return weight(score, largest) / sum; }
};

}  // namespace smex::kernels
