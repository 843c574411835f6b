// Consecutive words of a PhiloxTensor, several blocks at a time. Included by kernels that are
// compiled per instruction set.
#pragma once

#include <algorithm>

#include "kernels/cpu/simd.h"
#include "kernels/random/philox.h"

namespace smex::kernels::SMEX_ISA {

/// Blocks that are computed at a time: a vector has one in each lane of 64 bits.
constexpr int kPhiloxLanes = kLanes<uint64_t>;
using PhiloxLanes = Vector<uint64_t, kPhiloxLanes>;

/// The products of the lower halves of each lane.
SMEX_INLINE PhiloxLanes multiply_lower(PhiloxLanes a, PhiloxLanes b) {
#if defined(__AVX512F__)
  return (PhiloxLanes)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (PhiloxLanes)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

/// What each lane has in its lower half, beside that of another vector.
SMEX_INLINE PhiloxLanes beside(PhiloxLanes low, PhiloxLanes high) {
  return (low & 0xffffffffu) | (high << 32);
}

/// The places of lanes of two vectors, in turn: those from `kFirst` of every second one.
template <int kFirst, int... kLane>
SMEX_INLINE PhiloxLanes in_turn(PhiloxLanes a, PhiloxLanes b,
                                std::integer_sequence<int, kLane...>) {
  using Places = Vector<int64_t, kPhiloxLanes>;
  constexpr Places kPlaces = {
      (kLane % 2 == 0 ? kLane + kFirst : kPhiloxLanes + kLane - 1 + kFirst)...};
  return __builtin_shuffle(a, b, kPlaces);
}

/// Writes the words of `kPhiloxLanes` blocks, from `block` on.
SMEX_INLINE void philox_blocks(const PhiloxTensor& tensor, uint64_t block, uint32_t* out) {
  constexpr int n = kPhiloxLanes;
  // Lanes of even number have the first half of the blocks: as pairs of lanes are stored, each half
  // is in order.
  PhiloxLanes c0;
  for (int i = 0; i < n; ++i) c0[i] = block + static_cast<uint64_t>(i / 2 + i % 2 * (n / 2));
  const PhiloxLanes zero = {};
  PhiloxLanes c1 = c0 >> 32, c2 = zero + (tensor.stream & 0xffffffffu),
              c3 = zero + (tensor.stream >> 32);
  // The upper halves of the counters are not looked at.
  const PhiloxLanes m0 = zero + 0xD2511F53u, m1 = zero + 0xCD9E8D57u;
  uint32_t key0 = static_cast<uint32_t>(tensor.seed);
  uint32_t key1 = static_cast<uint32_t>(tensor.seed >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const PhiloxLanes product0 = multiply_lower(c0, m0), product1 = multiply_lower(c2, m1);
    c0 = (product1 >> 32) ^ c1 ^ key0;
    c2 = (product0 >> 32) ^ c3 ^ key1;
    c1 = product1;
    c3 = product0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  constexpr std::make_integer_sequence<int, n> kLanesOfAll;
  const PhiloxLanes first = beside(c0, c1), second = beside(c2, c3);
  const PhiloxLanes low = in_turn<0>(first, second, kLanesOfAll);
  const PhiloxLanes high = in_turn<1>(first, second, kLanesOfAll);
  std::memcpy(out, &low, sizeof(low));
  std::memcpy(out + 2 * n, &high, sizeof(high));
}

/// Words that `random_words` may write beyond those that it is asked for.
constexpr int64_t kSpareWords = 4 * kPhiloxLanes + 4;

/// Returns where in `buffer` the words of elements `first` .. `first + count` of a tensor are; the
/// buffer has room for `kSpareWords` more.
SMEX_INLINE const uint32_t* random_words(const PhiloxTensor& tensor, uint64_t first, int64_t count,
                                         uint32_t* buffer) {
  const int64_t lane = static_cast<int64_t>(first % 4);
  uint64_t block = first / 4;
  for (int64_t done = 0; done < lane + count; done += 4 * kPhiloxLanes) {
    philox_blocks(tensor, block, buffer + done);
    block += kPhiloxLanes;
  }
  return buffer + lane;
}

}  // namespace smex::kernels::SMEX_ISA
