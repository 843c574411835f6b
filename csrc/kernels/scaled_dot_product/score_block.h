// What is done to a block of scores between the products of attention.
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"
#include "kernels/random/philox.h"

namespace smex::kernels {

/// What is drawn for each of the weights of attention: 0 with some probability, or `kept`. It
/// equals `DropoutDraw` of the whole tensor of weights.
template <typename C>
struct WeightDropout {
  PhiloxTensor random;
  uint32_t threshold = 0;  ///< a word below it drops its weight
  C kept = 1;
  bool drops = false;  ///< false: all weights are kept
};

/// Scores of `rows` queries for `columns` keys, as products of the two, and what is added to them.
template <typename C>
struct ScoreBlock {
  C* score = nullptr;  ///< [rows, columns]
  int64_t rows = 0, columns = 0;
  C scale = 1;
  const C* mask = nullptr;                ///< null: none
  int64_t mask_row = 0, mask_column = 0;  ///< its strides; that of columns is 0 or 1
  bool causal = false;
  int64_t visible = 0;  ///< causal: keys that the first query sees; each next one sees one more
  WeightDropout<C> dropout;
  uint64_t first = 0;     ///< place of the first weight among all weights
  uint64_t row_step = 0;  ///< from one query's weights to the next one's

  /// Keys of the block that a query sees.
  int64_t seen(int64_t row) const {
    const int64_t count = visible + row;
    return !causal || count > columns ? columns : count < 0 ? 0 : count;
  }
};

/// Brings a block into a softmax over the blocks of the same queries before it: makes weights of
/// the scores, relative to the largest so far, and drops some of them. `largest` and `total` [rows]
/// begin as -inf and 0; `rescale` [rows] is what earlier blocks are to be multiplied by.
/// `words` has room for the words of a row and `kWordsBeyond` more.
SMEX_FOR_EACH_ISA(template <typename C> void softmax_block(const ScoreBlock<C>& block, C* largest,
                                                           C* total, C* rescale, uint32_t* words);)

/// Of weights w by each query's `logsumexp` [rows], and `change`, the gradients of what they weigh
/// [rows, columns]: puts w * d into the scores, with d what is drawn, and the gradient of the sum
/// of product and mask into `change`, w * (d * change - delta).
SMEX_FOR_EACH_ISA(template <typename C> void gradient_block(const ScoreBlock<C>& block, C* change,
                                                            const C* logsumexp, const C* delta,
                                                            uint32_t* words);)

/// Adds the gradients of a block [rows, columns] to those of the mask, which has strides as the
/// mask in the block.
SMEX_FOR_EACH_ISA(template <typename C> void add_mask_gradient(const ScoreBlock<C>& block,
                                                               const C* change, C* grad_mask);)

constexpr int64_t kWordsBeyond = 64;

}  // namespace smex::kernels
