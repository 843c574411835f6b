// Softmax of a row's scores, block by block. Included by kernels that are compiled per instruction
// set.
#pragma once

#include <limits>

#include "kernels/cpu/exp.h"

namespace smex::kernels::SMEX_ISA {

/// The scores of a block of a row's edges, flat, and the running statistics of the row.
///
/// A block lies flat, edges times elements. Where `elements` divides the lanes of a vector, every
/// lane belongs to one element throughout, so whole vectors are worked on and lanes of the same
/// element meet at the end. After a block of scores come a vector's worth of -inf.
/// `kElements` is `elements` where it is known when this is compiled, else 0.
template <typename C, int kElements = 0>
class FlatSoftmax {
 public:
  static constexpr int W = kLanes<C>;
  static constexpr C kLowest = -std::numeric_limits<C>::infinity();

  /// For rows of `elements` numbers per edge, in blocks of about `block_elements` numbers.
  FlatSoftmax(int64_t elements, int64_t block_elements)
      : lanes(W % elements == 0 ? W : elements),
        block_edges(elements < block_elements ? block_elements / elements : 1),
        scores(new C[block_edges * elements + W]),
        largest(new C[lanes]),
        sum(new C[lanes]),
        scale(new C[lanes]),
        elements_(elements) {}
  ~FlatSoftmax() {
    delete[] scores;
    delete[] largest;
    delete[] sum;
    delete[] scale;
  }
  FlatSoftmax(const FlatSoftmax&) = delete;
  FlatSoftmax& operator=(const FlatSoftmax&) = delete;

  const int64_t lanes, block_edges;
  C* const scores;   ///< [block_edges, elements] and padding
  C* const largest;  ///< of the row so far; lane i belongs to element i % elements
  C* const sum;      ///< of exp(score - largest)
  C* const
      scale;  ///< what the sums before the last block were multiplied by, if it was not the first

  SMEX_INLINE int64_t elements() const { return kElements > 0 ? kElements : elements_; }
  SMEX_INLINE bool is_flat() const {
    if constexpr (kElements > 0) return W % kElements == 0;
    return lanes == W;
  }

  void reset() {
    has_block_ = false;
    for (int64_t i = 0; i < lanes; ++i) {
      largest[i] = kLowest;
      sum[i] = 0;
    }
  }

  void pad(int64_t count) {
    for (int64_t i = 0; i < W; ++i) scores[count + i] = kLowest;
  }

  /// Turns `count` padded scores into exp(score - largest), with the largest so far. The sums of
  /// lanes have yet to meet.
  void add_block(int64_t count) {
    if (is_flat()) return add_flat_block(count);
    for (int64_t i = 0; i < elements(); ++i) {
      C most = largest[i];
      for (int64_t j = i; j < count; j += elements())
        most = scores[j] > most || scores[j] != scores[j] ? scores[j] : most;
      scale[i] = exp_one(shifted(largest[i], most));
      sum[i] *= scale[i];
      largest[i] = most;
    }
    for (int64_t start = 0; start < count; start += elements()) {
      for (int64_t i = 0; i < elements(); ++i) {
        C& score = scores[start + i];
        score = exp_one(shifted(score, largest[i]));
        sum[i] += score;
      }
    }
  }

  /// After the last block.
  void meet_sums() {
    if (!is_flat()) return;
    store<W>(sum, met(load<C, W>(sum), [](auto a, auto b) { return a + b; }));
  }

  /// The softmax of a row that consists of a few vectors, in place.
  template <int NV>
  SMEX_INLINE void normalise(Vector<C, W> (&x)[NV]) const {
    auto most = x[0];
#pragma GCC unroll 4
    for (int j = 1; j < NV; ++j) most = larger(most, x[j]);
    most = finite_or_0(met(most, larger));
    Vector<C, W> total = {};
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) {
      x[j] = exp_of<W>(x[j] - most);
      total += x[j];
    }
    const auto factor = C(1) / met(total, [](auto a, auto b) { return a + b; });
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) x[j] *= factor;
  }

  /// Lanes of the same element combined, in each of them: they lie `elements` apart.
  template <typename Combine>
  SMEX_INLINE Vector<C, W> met(Vector<C, W> value, const Combine& combine) const {
    return meet_lanes<C, W>(value, elements(), combine);
  }

  // Infinity minus infinity is no number; where all scores are -inf, so is the padding, and the
  // sum of the row decides.
  static SMEX_INLINE Vector<C, W> shifted(Vector<C, W> score, Vector<C, W> most) {
    return score - finite_or_0(most);
  }
  static SMEX_INLINE C shifted(C score, C most) { return score == kLowest ? score : score - most; }

 private:
  /// A NaN is the largest.
  static SMEX_INLINE Vector<C, W> larger(Vector<C, W> a, Vector<C, W> b) {
    return (b > a) | (b != b) ? b : a;
  }
  static SMEX_INLINE Vector<C, W> finite_or_0(Vector<C, W> most) {
    return most == splat<C, W>(kLowest) ? Vector<C, W>{} : most;
  }

  void add_flat_block(int64_t count) {
    const auto before = load<C, W>(largest);
    auto most = before;
    for (int64_t i = 0; i < count; i += W) {
      const auto score = load<C, W>(scores + i);
      most = larger(most, score);
    }
    most = met(most, larger);
    Vector<C, W> total = {};
    if (has_block_) {
      const auto shrink = exp_of<W>(shifted(before, most));
      store<W>(scale, shrink);
      total = load<C, W>(sum) * shrink;
    }
    has_block_ = true;
    const auto least = finite_or_0(most);
    for (int64_t i = 0; i < count; i += W) {
      const auto value = exp_of<W>(load<C, W>(scores + i) - least);
      store<W>(scores + i, value);
      total += value;
    }
    store<W>(largest, most);
    store<W>(sum, total);
  }

  const int64_t elements_;
  bool has_block_ = false;
};

}  // namespace smex::kernels::SMEX_ISA
