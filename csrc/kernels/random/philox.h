#pragma once

#include <cstdint>

#include "host_device.h"

namespace smex::kernels {

/// The 128 random bits of one Philox block.
struct PhiloxBlock {
  uint32_t words[4];
};

/// Philox4x32-10 of Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (SC'11), §3.3.
///
/// A pure function of its 128-bit counter and 64-bit key, so any element of a random tensor can be
/// drawn anywhere, in any order. Equal to Random123's philox4x32 with ten rounds.
SMEX_HOST_DEVICE PhiloxBlock philox4x32_10(PhiloxBlock counter, uint32_t key0, uint32_t key1) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53;
  constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9;  // golden ratio
  constexpr uint32_t kWeyl1 = 0xBB67AE85;  // sqrt(3) - 1
  constexpr int kRounds = 10;
  uint32_t* c = counter.words;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = kMultiplier0 * c[0];
    const uint64_t product1 = kMultiplier1 * c[2];
    c[0] = static_cast<uint32_t>(product1 >> 32) ^ c[1] ^ key0;
    c[2] = static_cast<uint32_t>(product0 >> 32) ^ c[3] ^ key1;
    c[1] = static_cast<uint32_t>(product1);
    c[3] = static_cast<uint32_t>(product0);
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

/// One of the words. Chosen, not indexed: an index known only at run time would move the block from
/// a GPU's registers to its local memory.
SMEX_HOST_DEVICE uint32_t word_of(const PhiloxBlock& block, int lane) {
  const uint32_t low = lane & 1 ? block.words[1] : block.words[0];
  const uint32_t high = lane & 1 ? block.words[3] : block.words[2];
  return lane & 2 ? high : low;
}

/// A tensor of independent random 32-bit words, addressed by global element index.
///
/// Element `i` is word `i % 4` of the block with key = `seed` and counter = (`i / 4`, `stream`),
/// low half first. Two streams of one seed never share a block.
struct PhiloxTensor {
  uint64_t seed = 0;
  uint64_t stream = 0;

  /// The words of elements 4 * block .. 4 * block + 3.
  SMEX_HOST_DEVICE PhiloxBlock block(uint64_t block) const {
    const PhiloxBlock counter = {{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                                  static_cast<uint32_t>(stream),
                                  static_cast<uint32_t>(stream >> 32)}};
    return philox4x32_10(counter, static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
  }
};

}  // namespace smex::kernels
