// Compiled once for each instruction set.
#include "kernels/scaled_dot_product/score_block.h"

#include <limits>

#include "kernels/cpu/exp.h"
#include "kernels/random/cpu/words.h"

namespace smex::kernels::SMEX_ISA {
namespace {

static_assert(kSpareWords <= kWordsBeyond);

template <typename C>
constexpr C kHidden = -std::numeric_limits<C>::infinity();

/// The factors of the weights from `i` on: 0, or what those that are kept are multiplied by.
template <int W, typename C>
SMEX_INLINE Vector<C, W> drawn(const WeightDropout<C>& dropout, const uint32_t* words, int64_t i) {
  Vector<uint32_t, W> word;
  std::memcpy(&word, words + i, sizeof(word));
  const auto is_kept = __builtin_convertvector(word >= dropout.threshold, Mask<C, W>);
  return is_kept ? splat<C, W>(dropout.kept) : Vector<C, W>{};
}

/// One query's scores.
template <typename C>
class Row {
 public:
  SMEX_INLINE Row(const ScoreBlock<C>& block, int64_t row, uint32_t* buffer)
      : block_(block),
        score_(block.score + row * block.columns),
        mask_(block.mask ? block.mask + row * block.mask_row : nullptr),
        seen(block.seen(row)) {
    if (block.dropout.drops) {
      words_ =
          random_words(block.dropout.random,
                       block.first + static_cast<uint64_t>(row) * block.row_step, seen, buffer);
    }
  }

  /// Calls `f(score, w, i)` with the scores from `i` on, scaled and masked.
  template <typename Function>
  SMEX_INLINE void scores(const Function& f) const {
    if (!mask_) {
      for_lanes<C>(
          seen, [&](auto w, int64_t i) { f(load<C, w.value>(score_ + i) * block_.scale, w, i); });
    } else if (block_.mask_column == 0) {
      const C added = *mask_;
      for_lanes<C>(seen, [&](auto w, int64_t i) {
        f(load<C, w.value>(score_ + i) * block_.scale + added, w, i);
      });
    } else {
      for_lanes<C>(seen, [&](auto w, int64_t i) {
        f(load<C, w.value>(score_ + i) * block_.scale + load<C, w.value>(mask_ + i), w, i);
      });
    }
  }

  /// Puts 0 where the query sees nothing.
  SMEX_INLINE void clear_unseen(C* row) const {
    for (int64_t i = seen; i < block_.columns; ++i) row[i] = 0;
  }

  SMEX_INLINE C* score() const { return score_; }
  SMEX_INLINE const uint32_t* words() const { return words_; }

 private:
  const ScoreBlock<C>& block_;
  C* score_;
  const C* mask_;
  const uint32_t* words_ = nullptr;

 public:
  const int64_t seen;
};

template <typename C>
SMEX_INLINE C largest_score(const Row<C>& row, C before) {
  constexpr int kWidest = kLanes<C>;
  auto wide = splat<C, kWidest>(before);
  C rest = before;
  row.scores([&](auto score, auto w, int64_t i) {
    if constexpr (w.value == kWidest) {
      wide = score > wide ? score : wide;
    } else {
      for (int lane = 0; lane < w.value; ++lane) rest = score[lane] > rest ? score[lane] : rest;
    }
    store<w.value>(row.score() + i, score);
  });
  return combine_lanes<C, kWidest>(splat<C, kWidest>(rest) > wide ? splat<C, kWidest>(rest) : wide,
                                   [](auto a, auto b) { return a > b ? a : b; });
}

/// Makes weights of scores that `largest_score` has left, and returns their sum.
template <bool kDrops, typename C>
SMEX_INLINE C weigh(const Row<C>& row, const WeightDropout<C>& dropout, C top) {
  constexpr int kWidest = kLanes<C>;
  C* const score = row.score();
  Vector<C, kWidest> wide = {};
  C rest = 0;
  for_lanes<C>(row.seen, [&](auto w, int64_t i) {
    constexpr int W = w.value;
    const Vector<C, W> weight = exp_of<W>(load<C, W>(score + i) - top);
    if constexpr (W == kWidest) {
      wide += weight;
    } else {
      rest += sum_lanes<C, W>(weight);
    }
    if constexpr (kDrops) {
      store<W>(score + i, weight * drawn<W>(dropout, row.words(), i));
    } else {
      store<W>(score + i, weight);
    }
  });
  return sum_lanes<C, kWidest>(wide) + rest;
}

template <bool kDrops, typename C>
SMEX_INLINE void gradient_row(const Row<C>& row, const WeightDropout<C>& dropout, C* change,
                              C logsumexp, C delta) {
  row.scores([&](auto score, auto w, int64_t i) {
    constexpr int W = w.value;
    const Vector<C, W> weight = exp_of<W>(score - logsumexp);
    const Vector<C, W> given = load<C, W>(change + i);
    if constexpr (kDrops) {
      const Vector<C, W> factor = drawn<W>(dropout, row.words(), i);
      store<W>(row.score() + i, weight * factor);
      store<W>(change + i, weight * (given * factor - delta));
    } else {
      store<W>(row.score() + i, weight);
      store<W>(change + i, weight * (given - delta));
    }
  });
}

}  // namespace

template <typename C>
void softmax_block(const ScoreBlock<C>& block, C* largest, C* total, C* rescale, uint32_t* words) {
  for (int64_t r = 0; r < block.rows; ++r) {
    const Row<C> row(block, r, words);
    const C before = largest[r];
    const C top = largest_score(row, before);
    const C shift = top == kHidden<C> ? C(0) : top;  // of a query that sees nothing
    rescale[r] = before == top ? C(1) : exp_one(before - shift);
    const C sum = block.dropout.drops ? weigh<true>(row, block.dropout, shift)
                                      : weigh<false>(row, block.dropout, shift);
    row.clear_unseen(row.score());
    largest[r] = top;
    total[r] = total[r] * rescale[r] + sum;
  }
}

template <typename C>
void gradient_block(const ScoreBlock<C>& block, C* change, const C* logsumexp, const C* delta,
                    uint32_t* words) {
  for (int64_t r = 0; r < block.rows; ++r) {
    const Row<C> row(block, r, words);
    C* const changed = change + r * block.columns;
    // A query that sees nothing has weights of 0: exp(-inf - 0).
    const C sum = logsumexp[r] == kHidden<C> ? C(0) : logsumexp[r];
    if (block.dropout.drops) {
      gradient_row<true>(row, block.dropout, changed, sum, delta[r]);
    } else {
      gradient_row<false>(row, block.dropout, changed, sum, delta[r]);
    }
    row.clear_unseen(row.score());
    row.clear_unseen(changed);
  }
}

template <typename C>
void add_mask_gradient(const ScoreBlock<C>& block, const C* change, C* grad_mask) {
  for (int64_t r = 0; r < block.rows; ++r) {
    const C* const from = change + r * block.columns;
    C* const to = grad_mask + r * block.mask_row;
    const int64_t seen = block.seen(r);
    if (block.mask_column == 0) {
      C sum = 0;
      for (int64_t i = 0; i < seen; ++i) sum += from[i];
      *to += sum;
    } else {
      for_lanes<C>(seen, [&](auto w, int64_t i) {
        store<w.value>(to + i, load<C, w.value>(to + i) + load<C, w.value>(from + i));
      });
    }
  }
}

#define SMEX_INSTANTIATE(C)                                                              \
  template void softmax_block(const ScoreBlock<C>&, C*, C*, C*, uint32_t*);              \
  template void gradient_block(const ScoreBlock<C>&, C*, const C*, const C*, uint32_t*); \
  template void add_mask_gradient(const ScoreBlock<C>&, const C*, C*);
SMEX_INSTANTIATE(float)
SMEX_INSTANTIATE(double)
#undef SMEX_INSTANTIATE

}  // namespace smex::kernels::SMEX_ISA
