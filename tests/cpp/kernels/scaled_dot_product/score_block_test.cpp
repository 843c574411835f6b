#include "kernels/scaled_dot_product/score_block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/message/cpu_samples.h"

namespace smex::kernels {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

/// A block with numbers of its own, and what its elements are by plain arithmetic.
struct Sample {
  Sample(int64_t num_rows, int64_t num_columns, bool causal, bool drops, int64_t mask_columns)
      : rows(num_rows), columns(num_columns) {
    std::mt19937 random(static_cast<unsigned>(7 * rows + columns));
    std::normal_distribution<double> normal;
    const auto fill = [&](std::vector<double>& x, int64_t count) {
      x.resize(count);
      for (double& value : x) value = normal(random);
    };
    fill(score, rows * columns);
    fill(change, rows * columns);
    fill(mask, rows * std::max<int64_t>(mask_columns, 1));
    if (mask_columns > 2) mask[1] = kHidden;
    block.rows = rows;
    block.columns = columns;
    block.scale = 0.5;
    block.causal = causal;
    block.visible = -1;  // the first two queries see nothing
    if (mask_columns > 0) {
      block.mask = mask.data();
      block.mask_row = mask_columns;
      block.mask_column = mask_columns > 1 ? 1 : 0;
    }
    block.dropout.drops = drops;
    block.dropout.random = {0x123456789abcdefULL, 5};
    block.dropout.threshold = 1u << 31;
    block.dropout.kept = 2;
    block.first = 0x1fffffff3ULL;  // the counter's upper word changes on the way
    block.row_step = 1001;
  }

  bool is_seen(int64_t r, int64_t c) const { return !block.causal || c < block.visible + r; }

  double scored(int64_t r, int64_t c) const {
    if (!is_seen(r, c)) return kHidden;
    const double added = block.mask ? mask[r * block.mask_row + c * block.mask_column] : 0;
    return 0.5 * score[r * columns + c] + added;
  }

  double drawn(int64_t r, int64_t c) const {
    if (!block.dropout.drops) return 1;
    const uint64_t place = block.first + r * block.row_step + c;
    const PhiloxBlock words = block.dropout.random.block(place / 4);
    return words.words[place % 4] < block.dropout.threshold ? 0 : 2;
  }

  int64_t rows, columns;
  std::vector<double> score, change, mask;
  ScoreBlock<double> block;
};

template <typename Check>
void for_samples(const Check& check) {
  for (int64_t rows : {1, 5}) {
    for (int64_t columns : {0, 1, 3, 4, 7, 8, 15, 16, 17, 33, 70}) {
      for (bool causal : {false, true}) {
        for (bool drops : {false, true}) {
          for (int64_t mask_columns : {int64_t{0}, int64_t{1}, columns}) {
            SCOPED_TRACE(testing::Message() << rows << " x " << columns << " causal " << causal
                                            << " drops " << drops << " mask " << mask_columns);
            check(Sample(rows, columns, causal, drops, mask_columns));
          }
        }
      }
    }
  }
}

TEST(ScoreBlock, SoftmaxOfTwoBlocksInTurn) {
  for (const auto& version : SMEX_SUPPORTED(softmax_block<double>)) {
    SCOPED_TRACE(version.isa);
    for_samples([&](Sample sample) {
      const Sample before = sample;
      const int64_t rows = sample.rows;
      std::vector<double> largest(rows, 0.25), total(rows, 3), rescale(rows);
      std::vector<uint32_t> words(sample.columns + kWordsBeyond);
      sample.block.score = sample.score.data();
      version.call(sample.block, largest.data(), total.data(), rescale.data(), words.data());
      for (int64_t r = 0; r < rows; ++r) {
        double top = 0.25, sum = 0;
        for (int64_t c = 0; c < sample.columns; ++c) top = std::max(top, before.scored(r, c));
        for (int64_t c = 0; c < sample.columns; ++c) {
          const double weight = std::exp(before.scored(r, c) - top);
          sum += weight;
          ASSERT_NEAR(sample.score[r * sample.columns + c], weight * before.drawn(r, c), 1e-12);
        }
        ASSERT_EQ(largest[r], top);
        ASSERT_NEAR(rescale[r], std::exp(0.25 - top), 1e-12);
        ASSERT_NEAR(total[r], 3 * std::exp(0.25 - top) + sum, 1e-12);
      }
    });
  }
}

TEST(ScoreBlock, QueriesThatSeeNothingHaveNoWeights) {
  for (const auto& version : SMEX_SUPPORTED(softmax_block<double>)) {
    SCOPED_TRACE(version.isa);
    Sample sample(5, 20, /*causal=*/true, /*drops=*/true, /*mask_columns=*/0);
    std::vector<double> largest(5, kHidden), total(5, 0), rescale(5);
    std::vector<uint32_t> words(20 + kWordsBeyond);
    sample.block.score = sample.score.data();
    version.call(sample.block, largest.data(), total.data(), rescale.data(), words.data());
    for (int64_t r : {0, 1}) {
      EXPECT_EQ(largest[r], kHidden);
      EXPECT_EQ(total[r], 0);
      EXPECT_EQ(rescale[r], 1);
      for (int64_t c = 0; c < 20; ++c) EXPECT_EQ(sample.score[r * 20 + c], 0);
    }
    EXPECT_EQ(total[2], 1);  // of a single key
  }
}

TEST(ScoreBlock, Gradients) {
  for (const auto& version : SMEX_SUPPORTED(gradient_block<double>)) {
    SCOPED_TRACE(version.isa);
    for_samples([&](Sample sample) {
      const Sample before = sample;
      const int64_t rows = sample.rows;
      std::vector<double> sums(rows, 2), delta(rows, 0.75);
      std::vector<uint32_t> words(sample.columns + kWordsBeyond);
      sample.block.score = sample.score.data();
      version.call(sample.block, sample.change.data(), sums.data(), delta.data(), words.data());
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < sample.columns; ++c) {
          const int64_t i = r * sample.columns + c;
          const double weight = std::exp(before.scored(r, c) - 2), factor = before.drawn(r, c);
          ASSERT_NEAR(sample.score[i], weight * factor, 1e-12);
          ASSERT_NEAR(sample.change[i], weight * (factor * before.change[i] - 0.75), 1e-12);
        }
      }
    });
  }
}

TEST(ScoreBlock, GradientsOfMasksAddUp) {
  for (const auto& version : SMEX_SUPPORTED(add_mask_gradient<double>)) {
    SCOPED_TRACE(version.isa);
    for_samples([&](const Sample& sample) {
      std::vector<double> found(sample.mask.size(), 1), wanted = found;
      version.call(sample.block, sample.change.data(), found.data());
      for (int64_t r = 0; r < sample.rows; ++r) {
        for (int64_t c = 0; c < sample.columns; ++c) {
          if (!sample.is_seen(r, c)) continue;
          wanted[r * sample.block.mask_row + c * sample.block.mask_column] +=
              sample.change[r * sample.columns + c];
        }
      }
      for (size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 1e-12);
    });
  }
}

}  // namespace
}  // namespace smex::kernels
