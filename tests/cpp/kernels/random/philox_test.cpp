#include "kernels/random/philox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/random/draw.h"

namespace smex::kernels {
namespace {

struct KnownAnswer {
  uint32_t counter[4];
  uint32_t key[2];
  uint32_t expected[4];
};

// Random123's kat_vectors, lines "philox4x32 10".
constexpr KnownAnswer kKnownAnswers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

TEST(Philox, KnownAnswers) {
  for (const KnownAnswer& known : kKnownAnswers) {
    PhiloxBlock counter;
    std::copy_n(known.counter, 4, counter.words);
    const PhiloxBlock drawn = philox4x32_10(counter, known.key[0], known.key[1]);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(drawn.words[i], known.expected[i]) << "word " << i;
  }
}

TEST(Philox, TensorPutsSeedInTheKeyAndStreamInTheUpperCounter) {
  // The third known answer, taken apart into seed, stream and block.
  const PhiloxTensor tensor{.seed = 0x299f31d0a4093822, .stream = 0x0370734413198a2e};
  const PhiloxBlock drawn = tensor.block(0x85a308d3243f6a88);
  EXPECT_EQ(drawn.words[0], 0xd16cfe09u);
  EXPECT_EQ(drawn.words[3], 0x24126ea1u);
}

TEST(Philox, SeedsStreamsAndBlocksDiffer) {
  std::vector<uint32_t> firsts;
  for (uint64_t seed : {0, 1}) {
    for (uint64_t stream : {0, 1}) {
      for (uint64_t block : {0, 1}) {
        firsts.push_back(PhiloxTensor{seed, stream}.block(block).words[0]);
      }
    }
  }
  std::sort(firsts.begin(), firsts.end());
  EXPECT_EQ(std::adjacent_find(firsts.begin(), firsts.end()), firsts.end());
}

TEST(Uniform, TakesTheUpperBitsOfItsWords) {
  const PhiloxBlock block{{0xffffffff, 0, 0x80000000, 0x000000ff}};
  const UniformDraw<float> floats;
  EXPECT_EQ(floats.value(block, 0), 1 - 0x1p-24f);
  EXPECT_EQ(floats.value(block, 1), 0);
  EXPECT_EQ(floats.value(block, 2), 0.5f);
  EXPECT_EQ(floats.value(block, 3), 0) << "bits below the 24 do not count";
  const UniformDraw<double> doubles;
  const PhiloxBlock most{{0xffffffff, 0xffffffff, 0x40000000, 0x00000800}};
  EXPECT_EQ(doubles.value(most, 0), 1 - 0x1p-53);
  EXPECT_EQ(doubles.value(most, 1), 0.25 + 0x1p-53);
}

}  // namespace
}  // namespace smex::kernels
