// Compiled once for each instruction set.
#include "kernels/edge_softmax/edge_softmax.h"

#include "edges/piece.h"
#include "kernels/edge_softmax/cpu/flat_softmax.h"
#include "kernels/edge_softmax/cpu/narrow_rows.h"
#include "kernels/message/instantiate.h"

namespace smex::kernels::SMEX_ISA {
namespace {

// Numbers of a row that are kept while it is worked on: they and the gradients fit the first-level
// cache. Longer rows are done block by block, and read twice.
constexpr int64_t kBlockElements = 2048;

/// The softmax of one row's edges, or its gradient.
template <int kElements, typename T, typename I>
class RowSoftmax {
 public:
  using C = accumulate_t<T>;
  static constexpr int W = kLanes<C>;

  explicit RowSoftmax(const EdgeSoftmaxTask<T, I>& task)
      : task_(task),
        flat_(task.elements, kBlockElements),
        grads_(new C[task.grad ? flat_.block_edges * task.elements + W : 1]) {}
  ~RowSoftmax() { delete[] grads_; }
  RowSoftmax(const RowSoftmax&) = delete;
  RowSoftmax& operator=(const RowSoftmax&) = delete;

  /// The softmax of a row. In `out` the positions before `limit` that come after the row may be
  /// overwritten, since their turn is still to come.
  void whole_row(int64_t begin, int64_t end, int64_t limit) {
    if (begin == end) return;
    if constexpr (kElements > 1 && W % kElements == 0) {
      const int64_t count = (end - begin) * kElements;
      if (!task_.grad && count <= 4 * W) {
        if (count <= W) return short_row<1>(begin, end, limit);
        if (count <= 2 * W) return short_row<2>(begin, end, limit);
        if (count <= 3 * W) return short_row<3>(begin, end, limit);
        return short_row<4>(begin, end, limit);
      }
    }
    statistics(begin, end);
    const bool is_loaded = end - begin <= flat_.block_edges;
    for_blocks(begin, end, [&](int64_t first, int64_t last) {
      if (!is_loaded) load_block(first, last);
      write_block(first, last, is_loaded);
    });
  }

  /// The statistics of a part of a row, into `to` [2, elements].
  void part_of_row(int64_t begin, int64_t end, C* to) {
    statistics(begin, end);
    for (int64_t i = 0; i < flat_.elements(); ++i) {
      to[i] = flat_.largest[i];
      to[flat_.elements() + i] = flat_.sum[i];
    }
  }

  /// Writes a part of a row of which the statistics are known.
  void finish_part(int64_t begin, int64_t end, const C* from) {
    for (int64_t i = 0; i < flat_.lanes; ++i) {
      flat_.largest[i] = from[i % flat_.elements()];
      flat_.sum[i] = from[flat_.elements() + i % flat_.elements()];
    }
    for_blocks(begin, end, [&](int64_t first, int64_t last) {
      load_block(first, last);
      write_block(first, last, /*has_exp=*/false);
    });
  }

 private:
  /// A row whose scores fit NV vectors, which never leave the registers.
  template <int NV>
  void short_row(int64_t begin, int64_t end, int64_t limit) {
    constexpr int n = kElements;
    const bool is_sorted = !task_.rows.eids;
    if (!is_sorted) gather(task_.score, flat_.scores, begin, end);
    Vector<C, W> x[NV];
    const int64_t count = (end - begin) * n, rest = count - (NV - 1) * W;
    if (!is_sorted) {
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) x[j] = load<C, W>(flat_.scores + j * W);
    } else {
      const T* const from = task_.score + begin * n;
#pragma GCC unroll 4
      for (int j = 0; j < NV - 1; ++j) x[j] = load<C, W>(from + j * W);
      x[NV - 1] = last_vector(from + (NV - 1) * W, rest, end);
    }
    flat_.normalise(x);
    T* const out = task_.out + begin * n;
    if (is_sorted && (limit - begin) * n >= NV * W) {
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) store<W>(out + j * W, x[j]);
      return;
    }
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) store<W>(flat_.scores + j * W, x[j]);
    scatter(flat_.scores, begin, end);
  }

  template <typename Visit>
  void for_blocks(int64_t begin, int64_t end, const Visit& visit) {
    for (int64_t k = begin; k < end; k += flat_.block_edges)
      visit(k, k + flat_.block_edges < end ? k + flat_.block_edges : end);
  }

  SMEX_INLINE int64_t edge(int64_t k) const { return task_.rows.eids ? task_.rows.eids[k] : k; }
  SMEX_INLINE int64_t edge_far(int64_t k) const {
    return edge(Ahead(k, task_.rows.num_edges - 1).far);
  }

  void load_block(int64_t begin, int64_t end) {
    gather(task_.score, flat_.scores, begin, end);
    if (task_.grad) gather(task_.grad, grads_, begin, end);
  }

  /// The numbers of edges, and -inf behind them. Where it can be done by whole vectors it is: one
  /// cannot be read back soon after it was written in parts.
  void gather(const T* from, C* to, int64_t begin, int64_t end) {
    const int64_t n = flat_.elements();
    if (!task_.rows.eids) return copy(from + begin * n, to, (end - begin) * n, end);
    for (int64_t k = begin; k < end; ++k) {
      prefetch_far(from + edge_far(k) * n);
      const T* const row = from + edge(k) * n;
      C* const place = to + (k - begin) * n;
      for_lanes<C, kElements>(
          n, [&](auto w, int64_t i) { store<w.value>(place + i, load<C, w.value>(row + i)); });
    }
    store<W>(to + (end - begin) * n, splat<C, W>(flat_.kLowest));
  }

  /// Of numbers that lie one after another, the last of them of the edge before `end`.
  void copy(const T* from, C* to, int64_t count, int64_t end) {
    int64_t i = 0;
    for (; i + W <= count; i += W) store<W>(to + i, load<C, W>(from + i));
    store<W>(to + i, last_vector(from + i, count - i, end));
  }

  /// The last `count` numbers of a row and -inf, where the next edge is `end`.
  SMEX_INLINE Vector<C, W> last_vector(const T* from, int64_t count, int64_t end) const {
    const int64_t behind = (task_.rows.num_edges - end) * flat_.elements();
    constexpr C kLowest = FlatSoftmax<C, kElements>::kLowest;
    if (count + behind >= W) return first_lanes<C, W>(load<C, W>(from), count, kLowest);
    auto rest = splat<C, W>(kLowest);
    for (int64_t i = 0; i < count; ++i) rest[i] = load_one(from + i);
    return rest;
  }

  void scatter(const C* from, int64_t begin, int64_t end) {
    const int64_t n = flat_.elements();
    if (!task_.rows.eids) {
      T* const out = task_.out + begin * n;
      for_lanes<C>((end - begin) * n,
                   [&](auto w, int64_t i) { store<w.value>(out + i, load<C, w.value>(from + i)); });
      return;
    }
    for (int64_t k = begin; k < end; ++k) {
      __builtin_prefetch(task_.out + edge_far(k) * n, /*write=*/1);
      T* const row = task_.out + edge(k) * n;
      const C* const place = from + (k - begin) * n;
      for_lanes<C, kElements>(
          n, [&](auto w, int64_t i) { store<w.value>(row + i, load<C, w.value>(place + i)); });
    }
  }

  /// Leaves the last block loaded, with its exponentials.
  void statistics(int64_t begin, int64_t end) {
    flat_.reset();
    for_blocks(begin, end, [&](int64_t first, int64_t last) {
      load_block(first, last);
      if (task_.grad) {
        add_products((last - first) * flat_.elements());
      } else {
        flat_.add_block((last - first) * flat_.elements());
      }
    });
    flat_.meet_sums();
  }

  void add_products(int64_t count) {
    const int64_t lanes = flat_.lanes;
    int64_t start = 0;
    if (flat_.is_flat()) {
      auto sum = load<C, W>(flat_.sum);
      for (; start + W <= count; start += W)
        sum += load<C, W>(flat_.scores + start) * load<C, W>(grads_ + start);
      store<W>(flat_.sum, sum);
    }
    for (; start < count; start += lanes) {
      const int64_t most = count - start < lanes ? count - start : lanes;
      for (int64_t i = 0; i < most; ++i)
        flat_.sum[i] += flat_.scores[start + i] * grads_[start + i];
    }
  }

  void write_block(int64_t begin, int64_t end, bool has_exp) {
    const int64_t count = (end - begin) * flat_.elements();
    C* const scores = flat_.scores;
    if (flat_.is_flat()) {
      const auto largest = load<C, W>(flat_.largest), sum = load<C, W>(flat_.sum);
      const auto factor = C(1) / sum;
      for (int64_t i = 0; i < count; i += W) {
        auto value = load<C, W>(scores + i);
        if (task_.grad) {
          value *= load<C, W>(grads_ + i) - sum;
        } else {
          value = (has_exp ? value : exp_of<W>(flat_.shifted(value, largest))) * factor;
        }
        store<W>(scores + i, value);
      }
    } else {
      for (int64_t start = 0; start < count; start += flat_.elements()) {
        for (int64_t i = 0; i < flat_.elements(); ++i) {
          C& value = scores[start + i];
          if (task_.grad) {
            value *= grads_[start + i] - flat_.sum[i];
          } else {
            const C power = has_exp ? value : exp_one(flat_.shifted(value, flat_.largest[i]));
            value = power / flat_.sum[i];
          }
        }
      }
    }
    scatter(scores, begin, end);
  }

  const EdgeSoftmaxTask<T, I>& task_;
  FlatSoftmax<C, kElements> flat_;
  C* const grads_;
};

template <typename T, typename I>
accumulate_t<T>* shared_of(const EdgeSoftmaxTask<T, I>& task, int64_t piece, RowPart part) {
  return task.shared + (piece * 2 + static_cast<int>(part)) * 2 * task.elements;
}

/// Pieces of rows with one number per edge.
template <typename T, typename I>
void narrow_pieces(const EdgeSoftmaxTask<T, I>& task, int64_t begin, int64_t end) {
  NarrowRows<T, I> rows(task);
  RowSoftmax<1, T, I> one_row(task);
  for (int64_t index = begin; index < end; ++index) {
    const Piece<I> piece(task.rows, index, task.num_pieces);
    piece.for_each_row([&](int64_t row, int64_t first, int64_t last, RowPart part) {
      if (part != RowPart::kWhole) {
        one_row.part_of_row(first, last, shared_of(task, index, part));
      } else if (!rows.take(row, first, last)) {
        one_row.whole_row(first, last, last);
      }
    });
  }
  rows.finish();
}

}  // namespace

template <typename T, typename I>
void edge_softmax_pieces(const EdgeSoftmaxTask<T, I>& task, int64_t begin, int64_t end) {
  if (task.elements == 1) return narrow_pieces(task, begin, end);
  with_elements(task.elements, [&](auto elements) {
    RowSoftmax<elements.value, T, I> softmax(task);
    for (int64_t index = begin; index < end; ++index) {
      const Piece<I> piece(task.rows, index, task.num_pieces);
      piece.for_each_row([&](int64_t, int64_t first, int64_t last, RowPart part) {
        if (part == RowPart::kWhole) return softmax.whole_row(first, last, piece.end.edge);
        softmax.part_of_row(first, last, shared_of(task, index, part));
      });
    }
  });
}

template <typename T, typename I>
void edge_softmax_finish(const EdgeSoftmaxTask<T, I>& task) {
  using C = accumulate_t<T>;
  const int64_t n = task.elements;
  for_each_shared_row(task.rows, task.num_pieces, [&](int64_t, int64_t first, int64_t last) {
    C* const total = shared_of(task, first, RowPart::kTail);
    for (int64_t i = 0; i < n; ++i) {
      C largest = total[i], sum = 0;
      for (int64_t p = first + 1; p <= last; ++p) {
        const C other = shared_of(task, p, RowPart::kHead)[i];
        largest = other > largest || other != other ? other : largest;
      }
      for (int64_t p = first; p <= last; ++p) {
        const C* const part = shared_of(task, p, p == first ? RowPart::kTail : RowPart::kHead);
        if (task.grad) {
          sum += part[n + i];
        } else if (part[n + i] != C(0)) {
          sum += part[n + i] * exp_one(part[i] - largest);
        }
      }
      for (int64_t p = first; p <= last; ++p) {
        C* const part = shared_of(task, p, p == first ? RowPart::kTail : RowPart::kHead);
        part[i] = largest;
        part[n + i] = sum;
      }
    }
  });
}

template <typename T, typename I>
void edge_softmax_shared(const EdgeSoftmaxTask<T, I>& task, int64_t begin, int64_t end) {
  with_elements(task.elements, [&](auto elements) {
    RowSoftmax<elements.value, T, I> softmax(task);
    for (int64_t index = begin; index < end; ++index) {
      const Piece<I> piece(task.rows, index, task.num_pieces);
      piece.for_each_row([&](int64_t, int64_t first, int64_t last, RowPart part) {
        if (part != RowPart::kWhole) softmax.finish_part(first, last, shared_of(task, index, part));
      });
    }
  });
}

#define SMEX_INSTANTIATE(T, I)                                                             \
  template void edge_softmax_pieces<T, I>(const EdgeSoftmaxTask<T, I>&, int64_t, int64_t); \
  template void edge_softmax_finish<T, I>(const EdgeSoftmaxTask<T, I>&);                   \
  template void edge_softmax_shared<T, I>(const EdgeSoftmaxTask<T, I>&, int64_t, int64_t);
SMEX_FOR_EACH_TYPE(SMEX_INSTANTIATE)
#undef SMEX_INSTANTIATE

}  // namespace smex::kernels::SMEX_ISA
