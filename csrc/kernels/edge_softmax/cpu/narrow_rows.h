// Edge softmax of rows with one number per edge, many rows at a time. Included by kernels that are
// compiled per instruction set.
#pragma once

#include "edges/piece.h"
#include "kernels/cpu/exp.h"
#include "kernels/edge_softmax/edge_softmax.h"

namespace smex::kernels::SMEX_ISA {

/// Rows wait until their edges fill a block. Alone a row of a few edges would leave most lanes of a
/// vector empty, and each of its steps would wait for the one before; in a block the exponentials
/// of all rows are taken together, and rows do not wait for each other.
template <typename T, typename I>
class NarrowRows {
 public:
  using C = accumulate_t<T>;
  static constexpr int W = kLanes<C>;
  static constexpr int64_t kBlockEdges = 2048;  // the arrays below fit the first-level cache

  explicit NarrowRows(const EdgeSoftmaxTask<T, I>& task)
      : task_(task),
        from_(new C[kBlockEdges + W]),
        to_(new C[kBlockEdges + W]),
        grads_(new C[task.grad ? kBlockEdges + W : 1]) {}
  ~NarrowRows() {
    delete[] from_;
    delete[] to_;
    delete[] grads_;
  }
  NarrowRows(const NarrowRows&) = delete;
  NarrowRows& operator=(const NarrowRows&) = delete;

  /// Takes a row with the given edges, or returns false: it is too long.
  bool take(int64_t row, int64_t begin, int64_t end) {
    if (end - begin > kBlockEdges) return false;
    if (row != last_ || end - begin_ > kBlockEdges) {
      finish();
      first_ = row;
      begin_ = begin;
    }
    last_ = row + 1;
    end_ = end;
    return true;
  }

  /// Does the rows that wait.
  void finish() {
    const int64_t count = end_ - begin_;
    if (count > 0) {
      gather(task_.score, from_);
      if (task_.grad) {
        gather(task_.grad, grads_);
        for_each_row([&](int64_t begin, int64_t edges) { gradient(begin, edges); });
      } else {
        for_each_row([&](int64_t begin, int64_t edges) { shift(begin, edges); });
        for (int64_t i = 0; i < count; i += W) store<W>(to_ + i, exp_of<W>(load<C, W>(to_ + i)));
        for_each_row([&](int64_t begin, int64_t edges) { divide(begin, edges); });
      }
      scatter(task_.grad ? to_ : from_);
    }
    first_ = last_ = begin_ = end_ = 0;
  }

 private:
  using Lanes = Vector<C, W>;

  template <typename Visit>
  SMEX_INLINE void for_each_row(const Visit& visit) const {
    const I* const indptr = task_.rows.indptr;
    int64_t begin = begin_;
    for (int64_t row = first_; row < last_; ++row) {
      const int64_t end = indptr[row + 1];
      if (begin < end) visit(begin - begin_, end - begin);
      begin = end;
    }
  }

  // The steps of a row. Whole vectors are written: what comes after the row is still to come.

  SMEX_INLINE void shift(int64_t begin, int64_t count) {
    constexpr C kLowest = -std::numeric_limits<C>::infinity();
    // Of a row with a NaN any number will do: the sum will be NaN.
    C most = combined(
        count, kLowest, [&](int64_t i) { return load<C, W>(from_ + begin + i); },
        [](auto a, auto b) { return a > b ? a : b; });
    if (most == kLowest) most = 0;
    for (int64_t i = begin; i < begin + count; i += W)
      store<W>(to_ + i, load<C, W>(from_ + i) - most);
  }

  SMEX_INLINE void divide(int64_t begin, int64_t count) {
    const C factor = C(1) / sum(count, [&](int64_t i) { return load<C, W>(to_ + begin + i); });
    for (int64_t i = begin; i < begin + count; i += W)
      store<W>(from_ + i, load<C, W>(to_ + i) * factor);
  }

  SMEX_INLINE void gradient(int64_t begin, int64_t count) {
    const C dot = sum(count, [&](int64_t i) {
      return load<C, W>(from_ + begin + i) * load<C, W>(grads_ + begin + i);
    });
    for (int64_t i = begin; i < begin + count; i += W)
      store<W>(to_ + i, load<C, W>(from_ + i) * (load<C, W>(grads_ + i) - dot));
  }

  template <typename Load>
  SMEX_INLINE static C sum(int64_t count, const Load& vector_at) {
    return combined(count, C(0), vector_at, [](auto a, auto b) { return a + b; });
  }

  /// A row's numbers combined; `vector_at(i)` has the i-th and those after it.
  template <typename Load, typename Combine>
  SMEX_INLINE static C combined(int64_t count, C neutral, const Load& vector_at,
                                const Combine& combine) {
    Lanes all = splat<C, W>(neutral);
    int64_t i = 0;
    for (; i + W <= count; i += W) all = combine(all, vector_at(i));
    if (i < count) all = combine(all, first_lanes<C, W>(vector_at(i), count - i, neutral));
    return combine_lanes<C, W>(all, combine);
  }

  // Between the block and the edges.

  SMEX_INLINE int64_t edge(int64_t k) const { return task_.rows.eids ? task_.rows.eids[k] : k; }
  SMEX_INLINE int64_t edge_far(int64_t k) const {
    return edge(Ahead(k, task_.rows.num_edges - 1).far);
  }

  void gather(const T* from, C* to) const {
    const int64_t count = end_ - begin_;
    if (!task_.rows.eids) {
      for_lanes<C>(count, [&](auto w, int64_t i) {
        store<w.value>(to + i, load<C, w.value>(from + begin_ + i));
      });
    } else {
      for (int64_t i = 0; i < count; ++i) {
        prefetch_far(from + edge_far(begin_ + i));
        to[i] = load_one(from + edge(begin_ + i));
      }
    }
  }

  void scatter(const C* from) const {
    const int64_t count = end_ - begin_;
    if (!task_.rows.eids) {
      for_lanes<C>(count, [&](auto w, int64_t i) {
        store<w.value>(task_.out + begin_ + i, load<C, w.value>(from + i));
      });
    } else {
      for (int64_t i = 0; i < count; ++i) {
        __builtin_prefetch(task_.out + edge_far(begin_ + i), /*write=*/1);
        store_one(task_.out + edge(begin_ + i), from[i]);
      }
    }
  }

  const EdgeSoftmaxTask<T, I>& task_;
  C* const from_;  ///< scores, and at last the softmax; for a gradient the softmax
  C* const to_;    ///< exponentials; for a gradient the result
  C* const grads_;
  int64_t first_ = 0, last_ = 0;  ///< rows that wait
  int64_t begin_ = 0, end_ = 0;   ///< and their edges
};

}  // namespace smex::kernels::SMEX_ISA
