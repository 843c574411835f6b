// Sums and means of products, by whole vectors. Compiled once for each instruction set.
#include "edges/piece.h"
#include "kernels/message/instantiate.h"
#include "kernels/spmm/cpu/special.h"
#include "kernels/spmm/cpu/tiles.h"

namespace smex::kernels::SMEX_ISA {
namespace {

// ---- messages: what is added to NV vectors of W elements ----

template <typename T, typename I>
struct CopyMessage {
  OperandRows<T, I> x;

  template <int W, int NV>
  SMEX_INLINE void prefetch_at(const Ahead& ahead, const Tile<W, NV>& tile) const {
    // For a single line the instructions cost more than the second-level cache's delay.
    if constexpr (W * NV * static_cast<int>(sizeof(T)) <= kCacheLine) {
      prefetch_far(x.at(ahead.far) + tile.at(0));
    } else {
      prefetch_tile(tile, x.at(ahead.far), x.at(ahead.near));
    }
  }

  template <int W, int NV>
  SMEX_INLINE void add(int64_t k, const Tile<W, NV>& tile, Vector<accumulate_t<T>, W>* sum) const {
    using C = accumulate_t<T>;
    const auto row = tile.of(x.at(k));
#pragma GCC unroll 16
    for (int j = 0; j < NV; ++j) sum[j] += load<C, W>(row.at(j));
  }
};

/// What messages with few numbers for an edge share.
template <typename T, typename I>
struct WeightedMessage {
  OperandRows<T, I> x, weight;

  template <int W, int NV>
  SMEX_INLINE void prefetch_at(const Ahead& ahead, const Tile<W, NV>& tile) const {
    prefetch_tile(tile, x.at(ahead.far), x.at(ahead.near));
    prefetch<1>(weight.at(ahead.far), weight.at(ahead.near));
  }
};

template <typename T, typename I>
struct ScaledMessage : WeightedMessage<T, I> {  // times one number for the edge
  using WeightedMessage<T, I>::x, WeightedMessage<T, I>::weight;

  template <int W, int NV>
  SMEX_INLINE void add(int64_t k, const Tile<W, NV>& tile, Vector<accumulate_t<T>, W>* sum) const {
    using C = accumulate_t<T>;
    const auto row = tile.of(x.at(k));
    const auto w = splat<C, W>(load_one(weight.at(k)));
#pragma GCC unroll 16
    for (int j = 0; j < NV; ++j) sum[j] += load<C, W>(row.at(j)) * w;
  }
};

template <typename T, typename I>
struct HeadScaledMessage : WeightedMessage<T, I> {  // times one number for each head of `inner`
  using WeightedMessage<T, I>::x, WeightedMessage<T, I>::weight;
  int64_t inner = 1;  ///< a multiple of W

  template <int W, int NV>
  SMEX_INLINE void add(int64_t k, const Tile<W, NV>& tile, Vector<accumulate_t<T>, W>* sum) const {
    using C = accumulate_t<T>;
    const auto row = tile.of(x.at(k));
    C wide[NV > kLanes<C> ? NV : kLanes<C>];  // for NV heads at most
    if (inner == W) {
      constexpr int kFront = NV / 2, kBack = NV - kFront;
      const T* const weights = weight.at(k);
      const C* const front = in_sum_type<kFront>(opaque(weights + tile.front / W), kFront, wide);
      const C* const back =
          in_sum_type<kBack>(opaque(weights + tile.back / W), kBack, wide + kFront);
#pragma GCC unroll 16
      for (int j = 0; j < NV; ++j)
        sum[j] += load<C, W>(row.at(j)) * splat<C, W>(j < kFront ? front[j] : back[j - kFront]);
      return;
    }
    const int64_t head = tile.at(0) / inner, last_head = tile.at(NV - 1) / inner;
    const C* const w = in_sum_type(weight.at(k) + head, last_head - head + 1, wide);
#pragma GCC unroll 16
    for (int j = 0; j < NV; ++j) {
      const int64_t at = tile.at(j);
      sum[j] += load<C, W>(row.at(j)) * splat<C, W>(w[at / inner - head]);
    }
  }
};

/// As above where a vector spans several heads: their weights are spread over its lanes.
template <int kInner, typename T, typename I>
struct NarrowHeadMessage : WeightedMessage<T, I> {
  using WeightedMessage<T, I>::x, WeightedMessage<T, I>::weight;

  template <int W, int NV>
  SMEX_INLINE void add(int64_t k, const Tile<W, NV>& tile, Vector<accumulate_t<T>, W>* sum) const {
    using C = accumulate_t<T>;
    const auto row = tile.of(x.at(k));
    const T* const w = weight.at(k);
#pragma GCC unroll 16
    for (int j = 0; j < NV; ++j) {
      const int64_t at = tile.at(j);
      sum[j] += load<C, W>(row.at(j)) * load_repeated<W, kInner>(w + at / kInner);
    }
  }
};

template <typename T, typename I>
struct ProductMessage {  // times as many numbers
  OperandRows<T, I> x, y;

  template <int W, int NV>
  SMEX_INLINE void prefetch_at(const Ahead& ahead, const Tile<W, NV>& tile) const {
    prefetch_tile(tile, x.at(ahead.far), x.at(ahead.near));
    prefetch_tile(tile, y.at(ahead.far), y.at(ahead.near));
  }

  template <int W, int NV>
  SMEX_INLINE void add(int64_t k, const Tile<W, NV>& tile, Vector<accumulate_t<T>, W>* sum) const {
    using C = accumulate_t<T>;
    const auto row = tile.of(x.at(k)), other = tile.of(y.at(k));
#pragma GCC unroll 16
    for (int j = 0; j < NV; ++j) sum[j] += load<C, W>(row.at(j)) * load<C, W>(other.at(j));
  }
};

// ---- sums and means ----

/// Factors that all messages of a row share, so that its sum is multiplied by them: operands of the
/// destination, and those that all edges share.
template <typename T>
struct RowFactors {
  using C = accumulate_t<T>;
  static constexpr int kMost = 2;
  struct Factor {
    const T* data = nullptr;
    int64_t row_size = 1;  ///< 1: one number for the row
    int64_t stride = 1;    ///< from one row to the next
  };
  Factor factors[kMost];
  int count = 0;

  template <int W>
  SMEX_INLINE Vector<C, W> product(Vector<C, W> sum, int64_t row, int64_t at) const {
    for (int i = 0; i < count; ++i) {
      const T* const from = factors[i].data + row * factors[i].stride;
      sum *= factors[i].row_size == 1 ? splat<C, W>(load_one(from)) : load<C, W>(from + at);
    }
    return sum;
  }
};

/// The elements of a tile of every row of a piece.
template <int W, int NV, typename T, typename I, typename Message>
void sum_tile(const SpmmTask<T, I>& task, int64_t index, const Message& message,
              const RowFactors<T>& factors, Tile<W, NV> tile) {
  using C = accumulate_t<T>;
  const Piece<I> piece(task.rows, index, task.num_pieces);
  const int64_t n = task.program->out_elements, final_edge = task.rows.num_edges - 1;
  piece.for_each_row([&](int64_t row, int64_t begin, int64_t end, RowPart part) {
    Vector<C, W> sum[NV] = {};
    for (int64_t k = begin; k < end; ++k) {
      message.prefetch_at(Ahead(k, final_edge), tile);
      message.add(k, tile, sum);
    }
    if (factors.count > 0 && end > begin) {
#pragma GCC unroll 16
      for (int j = 0; j < NV; ++j) sum[j] = factors.template product<W>(sum[j], row, tile.at(j));
    }
    if (part != RowPart::kWhole) {
      C* const to = task.shared + (index * 2 + static_cast<int>(part)) * n;
      for (int j = 0; j < NV; ++j) store<W>(to + tile.at(j), sum[j]);
      return;
    }
    if (task.reduce == Reduce::kMean && end > begin) {
      const auto degree = splat<C, W>(static_cast<C>(end - begin));
      for (int j = 0; j < NV; ++j) sum[j] /= degree;
    }
    T* const to = task.out + row * n;
    for (int j = 0; j < NV; ++j) store<W>(to + tile.at(j), sum[j]);
  });
}

template <bool kHeads = false, typename T, typename I, typename Message>
void sum_piece(const SpmmTask<T, I>& task, int64_t index, const Message& message,
               const RowFactors<T>& factors, int64_t inner = 0) {
  using C = accumulate_t<T>;
  constexpr int kVectors = kVectorBytes == 64 ? 16 : 8;  // of 32 and 16 registers
  cover<kLanes<C>, kVectors, kHeads>(task.program->out_elements, inner, [&](const auto& tile) {
    sum_tile(task, index, message, factors, tile);
  });
}

}  // namespace

template <typename T, typename I>
bool run_sum(const SpmmTask<T, I>& task, int64_t index) {
  constexpr int W = kLanes<accumulate_t<T>>;
  const MessageProgram& program = *task.program;
  const MessageOperand *wide = nullptr, *other = nullptr;
  RowFactors<T> factors;
  for (const MessageOperand& read : program.operands) {
    const bool is_full = read.broadcast.kind == Broadcast::Kind::kFull;
    if (read.target == Target::kDestination || read.target == Target::kShared) {
      if (!is_full && read.broadcast.kind != Broadcast::Kind::kScalar) return false;
      if (factors.count == RowFactors<T>::kMost) return false;
      const int64_t size = read.broadcast.row_size;
      const int64_t stride = read.target == Target::kShared ? 0 : size;
      factors.factors[factors.count++] = {task.operands[read.index], size, stride};
    } else if (is_full && !wide) {
      wide = &read;
    } else if (!other) {
      other = &read;
    } else {
      return false;
    }
  }
  if (!wide) return false;
  const auto x = rows_of(task, *wide);
  if (!other) {
    sum_piece(task, index, CopyMessage<T, I>{x}, factors);
    return true;
  }
  const auto y = rows_of(task, *other);
  const int64_t inner = other->broadcast.inner;
  switch (other->broadcast.kind) {
    case Broadcast::Kind::kFull:
      sum_piece(task, index, ProductMessage<T, I>{x, y}, factors);
      return true;
    case Broadcast::Kind::kScalar:
      sum_piece(task, index, ScaledMessage<T, I>{{x, y}}, factors);
      return true;
    case Broadcast::Kind::kHead:
      // Whole vectors only, so that none begins inside of a head.
      if (inner == 2 && W > 2 && program.out_elements % W == 0) {
        sum_piece(task, index, NarrowHeadMessage<2, T, I>{{x, y}}, factors);
        return true;
      }
      if (inner % 4 != 0) return false;
      sum_piece<true>(task, index, HeadScaledMessage<T, I>{{x, y}, inner}, factors, inner);
      return true;
    default:
      return false;
  }
}

#define SMEX_INSTANTIATE(T, I) template bool run_sum<T, I>(const SpmmTask<T, I>&, int64_t index);
SMEX_FOR_EACH_TYPE(SMEX_INSTANTIATE)
#undef SMEX_INSTANTIATE

}  // namespace smex::kernels::SMEX_ISA
