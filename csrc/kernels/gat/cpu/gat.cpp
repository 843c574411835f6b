// Compiled once for each instruction set.
#include "kernels/gat/gat.h"

#include "edges/piece.h"
#include "kernels/attention/cpu/attention_rows.h"
#include "kernels/attention/cpu/weighted_rows.h"
#include "kernels/cpu/dot.h"
#include "kernels/message/instantiate.h"

namespace smex::kernels::SMEX_ISA {
namespace {

// ---- forward ----

template <int kHeads, typename T, typename I>
class LeakyScores {
 public:
  using C = accumulate_t<T>;

  explicit LeakyScores(const GatForwardTask<T, I>& task) : task_(task) {}

  void put(int64_t row, int64_t begin, int64_t end, C* to) const {
    const int64_t heads = kHeads > 0 ? kHeads : task_.heads;
    const I* const columns = task_.rows.indices;
    const C* const right = task_.right + row * heads;
    for (int64_t k = begin; k < end; ++k, to += heads) {
      const Ahead ahead(k, task_.rows.num_edges - 1);
      prefetch<1>(task_.left + int64_t{columns[ahead.far]} * heads,
                  task_.left + int64_t{columns[ahead.near]} * heads);
      const C* const left = task_.left + int64_t{columns[k]} * heads;
      for_lanes<C, kHeads>(heads, [&](auto w, int64_t h) {
        const auto x = load<C, w.value>(left + h) + load<C, w.value>(right + h);
        store<w.value>(to + h, x > C(0) ? x : x * task_.slope);
      });
    }
  }

 private:
  const GatForwardTask<T, I>& task_;
};

// ---- backward ----

template <int kHeads, typename T, typename I>
class GatBackward {
 public:
  using C = accumulate_t<T>;

  GatBackward(const GatBackwardTask<T, I>& task, int64_t copy)
      : task_(task),
        heads_(task.heads),
        width_(task.heads * task.inner),
        block_edges_(heads_ < kScoresOfBlock ? kScoresOfBlock / heads_ : 1),
        grad_right_(task.grad_right ? task.grad_right + copy * task.num_destinations * heads_
                                    : nullptr),
        weights_(new C[block_edges_ * heads_ * 3 + kLanes<C>]),
        slopes_(weights_ + block_edges_ * heads_),
        products_(slopes_ + block_edges_ * heads_),
        sums_(new C[width_ + heads_]) {}
  ~GatBackward() {
    delete[] weights_;
    delete[] sums_;
  }
  GatBackward(const GatBackward&) = delete;
  GatBackward& operator=(const GatBackward&) = delete;

  void piece(int64_t index) {
    const Piece<I> piece(task_.rows, index, task_.num_pieces);
    piece.for_each_row([&](int64_t row, int64_t begin, int64_t end, RowPart part) {
      for (int64_t i = 0; i < width_ + heads_; ++i) sums_[i] = 0;
      for (int64_t k = begin; k < end; k += block_edges_)
        block(row, k, k + block_edges_ < end ? k + block_edges_ : end);
      if (part == RowPart::kWhole) return write_row(row);
      C* const to = task_.shared + (index * 2 + static_cast<int>(part)) * (width_ + heads_);
      for (int64_t i = 0; i < width_ + heads_; ++i) to[i] = sums_[i];
    });
  }

 private:
  void block(int64_t row, int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    const I* const columns = task_.rows.indices + begin;
    load_block(row, begin, end);
    exponentials(count * heads_);
    // From here on products_ holds the gradients of left + right.
    for (int64_t i = 0; grad_right_ && i < count; ++i) {
      C* const right = grad_right_ + int64_t{columns[i]} * heads_;
      const C* const change = products_ + i * heads_;
      for_lanes<C, kHeads>(heads_, [&](auto w, int64_t h) {
        store<w.value>(right + h, load<C, w.value>(right + h) + load<C, w.value>(change + h));
      });
    }
    C* const grad_left = sums_ + width_;
    for_lanes<C, kHeads>(heads_, [&](auto w, int64_t h) {
      auto sum = load<C, w.value>(grad_left + h);
      for (int64_t i = 0; i < count; ++i) sum += load<C, w.value>(products_ + i * heads_ + h);
      store<w.value>(grad_left + h, sum);
    });
    if (!task_.grad_value) return;
    const GatheredRows<T, I> grads{task_.grad, columns, width_};
    add_weighted_rows(count, heads_, task_.inner, weights_, grads, sums_);
  }

  /// weights_: score - log_sum; slopes_: of leaky_relu; products_: grad * value - delta.
  void load_block(int64_t row, int64_t begin, int64_t end) {
    const C* const left = task_.left + row * heads_;
    const T* const value = task_.value + row * width_;
    const C* const row_state = task_.row_state ? task_.row_state + row * 2 * heads_ : nullptr;
    const int64_t stride = row_state ? heads_ : 3 * heads_;
    const int64_t last = task_.rows.num_edges - 1, bytes = width_ * sizeof(T);
    for (int64_t k = begin; k < end; ++k) {
      const Ahead ahead(k, last);
      const int64_t far = task_.rows.indices[ahead.far], near = task_.rows.indices[ahead.near];
      prefetch_rows<4>(task_.state + far * stride, task_.state + near * stride, stride * sizeof(C));
      prefetch_rows(task_.grad + far * width_, task_.grad + near * width_, bytes);
      if (grad_right_) __builtin_prefetch(grad_right_ + far * heads_, /*write=*/1);
      const int64_t column = task_.rows.indices[k], at = (k - begin) * heads_;
      const C* const right = task_.state + column * stride;
      const C* const log_sum = row_state ? row_state : right + heads_;
      const C* const delta = log_sum + heads_;
      head_dots(task_.grad + column * width_, value, heads_, task_.inner, products_ + at);
      for_lanes<C, kHeads>(heads_, [&](auto w, int64_t h) {
        constexpr int W = w.value;
        const auto sum = load<C, W>(left + h) + load<C, W>(right + h);
        const auto slope = sum > C(0) ? splat<C, W>(C(1)) : splat<C, W>(task_.slope);
        store<W>(slopes_ + at + h, slope);
        store<W>(weights_ + at + h, sum * slope - load<C, W>(log_sum + h));
        store<W>(products_ + at + h, load<C, W>(products_ + at + h) - load<C, W>(delta + h));
      });
    }
  }

  void exponentials(int64_t count) {
    constexpr int W = kLanes<C>;
    int64_t i = 0;
    for (; i + W <= count; i += W) {
      const auto weight = exp_of<W>(load<C, W>(weights_ + i));
      store<W>(weights_ + i, weight);
      store<W>(products_ + i, load<C, W>(products_ + i) * load<C, W>(slopes_ + i) * weight);
    }
    for (; i < count; ++i) {
      weights_[i] = exp_one(weights_[i]);
      products_[i] *= slopes_[i] * weights_[i];
    }
  }

  void write_row(int64_t row) {
    if (task_.grad_value) {
      for_lanes<C>(width_, [&](auto w, int64_t i) {
        store<w.value>(task_.grad_value + row * width_ + i, load<C, w.value>(sums_ + i));
      });
    }
    for_lanes<C, kHeads>(heads_, [&](auto w, int64_t h) {
      store<w.value>(task_.grad_left + row * heads_ + h, load<C, w.value>(sums_ + width_ + h));
    });
  }

  const GatBackwardTask<T, I>& task_;
  const int64_t heads_, width_, block_edges_;
  C* const grad_right_;
  C* const weights_;
  C* const slopes_;
  C* const products_;
  C* const sums_;
};

}  // namespace

template <typename T, typename I>
void gat_forward_pieces(const GatForwardTask<T, I>& task, int64_t begin, int64_t end) {
  with_elements(task.heads, [&](auto heads) {
    LeakyScores<heads.value, T, I> scores(task);
    AttentionRows<heads.value, T, I, decltype(scores)> rows(task, scores);
    for (int64_t index = begin; index < end; ++index) rows.piece(index);
  });
}

template <typename T, typename I>
void gat_backward_states(const GatBackwardTask<T, I>& task, int64_t begin, int64_t end) {
  const int64_t heads = task.heads, width = heads * task.inner;
  for (int64_t v = begin; v < end; ++v) {
    auto* const to = task.state + v * 3 * heads;
    for (int64_t h = 0; h < heads; ++h) {
      to[h] = task.right[v * heads + h];
      to[heads + h] = task.log_sum[v * heads + h];
    }
    head_dots(task.grad + v * width, task.out + v * width, heads, task.inner, to + 2 * heads);
  }
}

template <typename T, typename I>
void gat_backward_pieces(const GatBackwardTask<T, I>& task, int64_t begin, int64_t end,
                         int64_t copy) {
  with_elements(task.heads, [&](auto heads) {
    GatBackward<heads.value, T, I> backward(task, copy);
    for (int64_t index = begin; index < end; ++index) backward.piece(index);
  });
}

template <typename T, typename I>
void gat_backward_finish(const GatBackwardTask<T, I>& task) {
  using C = accumulate_t<T>;
  const int64_t heads = task.heads, width = heads * task.inner, size = width + heads;
  for_each_shared_row(task.rows, task.num_pieces, [&](int64_t row, int64_t first, int64_t last) {
    C* const total = task.shared + (first * 2 + static_cast<int>(RowPart::kTail)) * size;
    for (int64_t p = first + 1; p <= last; ++p) {
      const C* const from = task.shared + (p * 2 + static_cast<int>(RowPart::kHead)) * size;
      for (int64_t i = 0; i < size; ++i) total[i] += from[i];
    }
    for (int64_t i = 0; task.grad_value && i < width; ++i)
      store_one(task.grad_value + row * width + i, total[i]);
    for (int64_t h = 0; h < heads; ++h) task.grad_left[row * heads + h] = total[width + h];
  });
}

#define SMEX_INSTANTIATE(T, I)                                                             \
  template void gat_forward_pieces<T, I>(const GatForwardTask<T, I>&, int64_t, int64_t);   \
  template void gat_backward_states<T, I>(const GatBackwardTask<T, I>&, int64_t, int64_t); \
  template void gat_backward_pieces<T, I>(const GatBackwardTask<T, I>&, int64_t, int64_t,  \
                                          int64_t);                                        \
  template void gat_backward_finish<T, I>(const GatBackwardTask<T, I>&);
SMEX_FOR_EACH_TYPE(SMEX_INSTANTIATE)
#undef SMEX_INSTANTIATE

}  // namespace smex::kernels::SMEX_ISA
