// Attention row by row. Included by kernels that are compiled per instruction set.
#pragma once

#include "edges/piece.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/cpu/weighted_rows.h"
#include "kernels/edge_softmax/cpu/flat_softmax.h"

namespace smex::kernels::SMEX_ISA {

/// Scores that are worked on at a time.
constexpr int64_t kScoresOfBlock = 1024;

/// `to[h * inner + d] = from[h * inner + d] * factor[h]`.
template <typename C, typename T>
void scale_heads(const C* from, const C* factor, int64_t heads, int64_t inner, T* to) {
  for (int64_t h = 0; h < heads; ++h) {
    for_lanes<C>(inner, [&](auto w, int64_t d) {
      store<w.value>(to + h * inner + d, load<C, w.value>(from + h * inner + d) * factor[h]);
    });
  }
}

/// Rows of attention. `scores.put(row, begin, end, to)` writes the scores of the edges at the
/// positions `begin` to `end` of a row, [edges, heads].
template <int kHeads, typename T, typename I, typename Scores>
class AttentionRows {
 public:
  using C = accumulate_t<T>;

  AttentionRows(const AttentionTask<T, I>& task, Scores& scores)
      : task_(task),
        scores_(scores),
        heads_(task.heads),
        width_(task.heads * task.inner),
        softmax_(task.heads, kScoresOfBlock),
        sums_(new C[width_ + heads_ + 1]),
        factors_(sums_ + width_) {}
  ~AttentionRows() { delete[] sums_; }
  AttentionRows(const AttentionRows&) = delete;
  AttentionRows& operator=(const AttentionRows&) = delete;

  void piece(int64_t index) {
    const Piece<I> piece(task_.rows, index, task_.num_pieces);
    piece.for_each_row([&](int64_t row, int64_t begin, int64_t end, RowPart part) {
      gather(row, begin, end);
      if (part == RowPart::kWhole) return write_row(row, begin == end);
      C* const to = task_.shared + (index * 2 + static_cast<int>(part)) * (width_ + 2 * heads_);
      for (int64_t h = 0; h < heads_; ++h) {
        to[h] = softmax_.largest[h];
        to[heads_ + h] = softmax_.sum[h];
      }
      for (int64_t i = 0; i < width_; ++i) to[2 * heads_ + i] = sums_[i];
    });
  }

 private:
  /// Leaves the sum of exp(score - largest) * value in `sums_`.
  void gather(int64_t row, int64_t begin, int64_t end) {
    softmax_.reset();
    for (int64_t i = 0; i < width_; ++i) sums_[i] = 0;
    for (int64_t k = begin; k < end; k += softmax_.block_edges) {
      const int64_t stop = k + softmax_.block_edges < end ? k + softmax_.block_edges : end;
      ask_for_values(k, stop);
      scores_.put(row, k, stop, softmax_.scores);
      softmax_.pad((stop - k) * heads_);
      softmax_.add_block((stop - k) * heads_);
      if (k > begin) rescale();
      const GatheredRows<T, I> values{task_.value, task_.rows.indices + k, width_};
      add_weighted_rows(stop - k, heads_, task_.inner, softmax_.scores, values, sums_);
    }
    softmax_.meet_sums();
  }

  void ask_for_values(int64_t begin, int64_t end) const {
    const int64_t last = task_.rows.num_edges - 1, bytes = width_ * sizeof(T);
    for (int64_t k = begin; k < end; ++k)
      prefetch_rows_far(task_.value + int64_t{task_.rows.indices[Ahead(k, last).far]} * width_,
                        bytes);
  }

  void rescale() { scale_heads(sums_, softmax_.scale, heads_, task_.inner, sums_); }

  void write_row(int64_t row, bool is_empty) {
    for (int64_t h = 0; h < heads_; ++h) {
      const C sum = is_empty ? C(1) : softmax_.sum[h];
      factors_[h] = C(1) / sum;
      if (!task_.sum) continue;
      task_.largest[row * heads_ + h] = is_empty ? C(0) : softmax_.largest[h];
      task_.sum[row * heads_ + h] = sum;
    }
    scale_heads(sums_, factors_, heads_, task_.inner, task_.out + row * width_);
  }

  const AttentionTask<T, I>& task_;
  Scores& scores_;
  const int64_t heads_, width_;
  FlatSoftmax<C, kHeads> softmax_;
  C* const sums_;
  C* const factors_;
};

}  // namespace smex::kernels::SMEX_ISA
