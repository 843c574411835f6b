#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/random/philox.h"

namespace smex::graph {

/// The random numbers of one row: element after element of its own Philox stream. Rows draw the
/// same whichever thread draws for them, and in any order.
class RowRandom {
 public:
  RowRandom(uint64_t seed, uint64_t stream) : random_{seed, stream} {}

  uint32_t word() {
    if (lane_ == 4) {
      block_ = random_.block(next_block_++);
      lane_ = 0;
    }
    return block_.words[lane_++];
  }

  uint64_t two_words() {
    const uint64_t high = word();
    return high << 32 | word();
  }

  /// An integer of [0, size), each equally likely; size > 0. Lemire, "Fast Random Integer
  /// Generation in an Interval" (2019), §4.
  uint64_t below(uint64_t size) {
    if (size > UINT32_MAX) return below_large(size);
    uint64_t product = word() * size;
    if (static_cast<uint32_t>(product) < size) {
      const uint32_t bound = static_cast<uint32_t>(-size) % static_cast<uint32_t>(size);
      while (static_cast<uint32_t>(product) < bound) product = word() * size;
    }
    return product >> 32;
  }

  /// A number of [0, 1) with 53 random bits.
  double uniform() { return static_cast<double>(two_words() >> 11) * 0x1p-53; }

  /// A number above 0, with density exp(-x).
  double exponential() { return -std::log1p(-uniform()); }

 private:
  uint64_t below_large(uint64_t size) {
    const uint64_t mask = ~uint64_t{0} >> std::countl_zero(size - 1);
    uint64_t number = two_words() & mask;
    while (number >= size) number = two_words() & mask;
    return number;
  }

  kernels::PhiloxTensor random_;
  kernels::PhiloxBlock block_ = {};
  uint64_t next_block_ = 0;
  int lane_ = 4;
};

}  // namespace smex::graph
