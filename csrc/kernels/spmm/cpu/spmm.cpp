// Compiled once for each instruction set.
#include "kernels/spmm/spmm.h"

#include <limits>

#include "kernels/message/interpreter.h"
#include "kernels/message/piece.h"

namespace smex::kernels::SMEX_ISA {
namespace {

/// Which row of an operand belongs to position k: a node at the other end, or an edge.
template <typename T, typename I>
struct Rows {
  const T* data = nullptr;
  const I* ids = nullptr;  ///< null: the position itself
  int64_t size = 0;

  SMEX_INLINE const T* at(int64_t k) const { return data + (ids ? int64_t{ids[k]} : k) * size; }
};

// ---- messages that have loops of their own: what is added to NV vectors of W elements ----

template <typename T, typename I>
struct CopyMessage {
  Rows<T, I> x;

  template <int kBytes>
  SMEX_INLINE void prefetch_at(const Ahead& ahead, int64_t first) const {
    // For a single line the instructions cost more than the second-level cache's delay.
    if constexpr (kBytes <= kCacheLine) {
      prefetch_far(x.at(ahead.far) + first);
    } else {
      prefetch<kBytes>(x.at(ahead.far) + first, x.at(ahead.near) + first);
    }
  }

  template <int W, int NV>
  SMEX_INLINE void add(int64_t k, int64_t first, int64_t last,
                       Vector<accumulate_t<T>, W>* sum) const {
    using C = accumulate_t<T>;
    const T* const row = x.at(k);
#pragma GCC unroll 16
    for (int j = 0; j < NV - 1; ++j) sum[j] += load<C, W>(row + first + j * W);
    sum[NV - 1] += load<C, W>(row + last);
  }
};

template <typename T, typename I>
struct ScaledMessage {  // times one number for the edge
  Rows<T, I> x, weight;

  template <int kBytes>
  SMEX_INLINE void prefetch_at(const Ahead& ahead, int64_t first) const {
    prefetch<kBytes>(x.at(ahead.far) + first, x.at(ahead.near) + first);
    prefetch<1>(weight.at(ahead.far), weight.at(ahead.near));
  }

  template <int W, int NV>
  SMEX_INLINE void add(int64_t k, int64_t first, int64_t last,
                       Vector<accumulate_t<T>, W>* sum) const {
    using C = accumulate_t<T>;
    const T* const row = x.at(k);
    const auto w = splat<C, W>(load_one(weight.at(k)));
#pragma GCC unroll 16
    for (int j = 0; j < NV - 1; ++j) sum[j] += load<C, W>(row + first + j * W) * w;
    sum[NV - 1] += load<C, W>(row + last) * w;
  }
};

template <typename T, typename I>
struct HeadScaledMessage {  // times one number for each head of `inner` elements; W divides inner
  Rows<T, I> x, weight;
  int64_t inner = 1;

  template <int kBytes>
  SMEX_INLINE void prefetch_at(const Ahead& ahead, int64_t first) const {
    prefetch<kBytes>(x.at(ahead.far) + first, x.at(ahead.near) + first);
    prefetch<1>(weight.at(ahead.far), weight.at(ahead.near));
  }

  template <int W, int NV>
  SMEX_INLINE void add(int64_t k, int64_t first, int64_t, Vector<accumulate_t<T>, W>* sum) const {
    using C = accumulate_t<T>;
    const T* const row = x.at(k);
    C wide[NV > kLanes<C> ? NV : kLanes<C>];  // for NV heads at most
    if (inner == W) {
      const C* const w = in_sum_type<NV>(weight.at(k) + first / W, NV, wide);
#pragma GCC unroll 16
      for (int j = 0; j < NV; ++j) sum[j] += load<C, W>(row + first + j * W) * splat<C, W>(w[j]);
      return;
    }
    const int64_t head = first / inner, last_head = (first + (NV - 1) * W) / inner;
    const C* const w = in_sum_type(weight.at(k) + head, last_head - head + 1, wide);
#pragma GCC unroll 16
    for (int j = 0; j < NV; ++j) {
      const int64_t at = first + j * W;
      sum[j] += load<C, W>(row + at) * splat<C, W>(w[at / inner - head]);
    }
  }
};

/// As above where a vector spans several heads: their weights are spread over its lanes.
template <int kInner, typename T, typename I>
struct NarrowHeadMessage {
  Rows<T, I> x, weight;

  template <int kBytes>
  SMEX_INLINE void prefetch_at(const Ahead& ahead, int64_t first) const {
    prefetch<kBytes>(x.at(ahead.far) + first, x.at(ahead.near) + first);
    prefetch<1>(weight.at(ahead.far), weight.at(ahead.near));
  }

  template <int W, int NV>
  SMEX_INLINE void add(int64_t k, int64_t first, int64_t last,
                       Vector<accumulate_t<T>, W>* sum) const {
    using C = accumulate_t<T>;
    const T *const row = x.at(k), *const w = weight.at(k);
#pragma GCC unroll 16
    for (int j = 0; j < NV; ++j) {
      const int64_t at = j == NV - 1 ? last : first + j * W;
      sum[j] += load<C, W>(row + at) * load_repeated<W, kInner>(w + at / kInner);
    }
  }
};

template <typename T, typename I>
struct ProductMessage {  // times as many numbers
  Rows<T, I> x, y;

  template <int kBytes>
  SMEX_INLINE void prefetch_at(const Ahead& ahead, int64_t first) const {
    prefetch<kBytes>(x.at(ahead.far) + first, x.at(ahead.near) + first);
    prefetch<kBytes>(y.at(ahead.far) + first, y.at(ahead.near) + first);
  }

  template <int W, int NV>
  SMEX_INLINE void add(int64_t k, int64_t first, int64_t last,
                       Vector<accumulate_t<T>, W>* sum) const {
    using C = accumulate_t<T>;
    const T *const row = x.at(k), *const other = y.at(k);
#pragma GCC unroll 16
    for (int j = 0; j < NV - 1; ++j)
      sum[j] += load<C, W>(row + first + j * W) * load<C, W>(other + first + j * W);
    sum[NV - 1] += load<C, W>(row + last) * load<C, W>(other + last);
  }
};

// ---- sums and means ----

/// Factors that all messages of a row share, so that its sum is multiplied by them: operands of the
/// destination.
template <typename T>
struct RowFactors {
  using C = accumulate_t<T>;
  static constexpr int kMost = 2;
  struct Factor {
    const T* data = nullptr;
    int64_t row_size = 1;  ///< 1: one number for the row
  };
  Factor factors[kMost];
  int count = 0;

  template <int W>
  SMEX_INLINE Vector<C, W> product(Vector<C, W> sum, int64_t row, int64_t at) const {
    for (int i = 0; i < count; ++i) {
      const T* const from = factors[i].data + row * factors[i].row_size;
      sum *= factors[i].row_size == 1 ? splat<C, W>(load_one(from)) : load<C, W>(from + at);
    }
    return sum;
  }
};

/// The elements [first, last + W) of every row of a piece, in NV vectors of which the last begins
/// at `last` and may overlap the one before.
template <int W, int NV, typename T, typename I, typename Message>
void sum_tile(const SpmmTask<T, I>& task, int64_t index, const Message& message,
              const RowFactors<T>& factors, int64_t first, int64_t last) {
  using C = accumulate_t<T>;
  constexpr int kBytes = W * NV * static_cast<int>(sizeof(T));
  const Piece<I> piece(task.rows, index, task.num_pieces);
  const int64_t n = task.program->out_elements, final_edge = task.rows.num_edges - 1;
  piece.for_each_row([&](int64_t row, int64_t begin, int64_t end, Part part) {
    Vector<C, W> sum[NV] = {};
    for (int64_t k = begin; k < end; ++k) {
      message.template prefetch_at<kBytes>(Ahead(k, final_edge), first);
      message.template add<W, NV>(k, first, last, sum);
    }
    if (factors.count > 0 && end > begin) {
#pragma GCC unroll 16
      for (int j = 0; j < NV; ++j)
        sum[j] = factors.template product<W>(sum[j], row, j == NV - 1 ? last : first + j * W);
    }
    if (part != Part::kWhole) {
      C* const to = task.shared + (index * 2 + static_cast<int>(part)) * n;
      for (int j = 0; j < NV; ++j) store<W>(to + (j == NV - 1 ? last : first + j * W), sum[j]);
      return;
    }
    if (task.reduce == Reduce::kMean && end > begin) {
      const auto degree = splat<C, W>(static_cast<C>(end - begin));
      for (int j = 0; j < NV; ++j) sum[j] /= degree;
    }
    T* const to = task.out + row * n;
    for (int j = 0; j < NV; ++j) store<W>(to + (j == NV - 1 ? last : first + j * W), sum[j]);
  });
}

/// Covers `n` elements with vectors of W lanes, the widest runs of them first.
template <int W, int NV, typename Tile>
SMEX_INLINE void cover_from(int64_t& first, int64_t n, const Tile& tile) {
  while (n - first >= NV * W) {
    tile(std::integral_constant<int, W>(), std::integral_constant<int, NV>(), first,
         first + (NV - 1) * W);
    first += NV * W;
  }
  if constexpr (NV > 1) {
    cover_from<W, NV / 2>(first, n, tile);
  } else if (first < n) {  // fewer than W are left: begin earlier
    tile(std::integral_constant<int, W>(), std::integral_constant<int, 1>(), n - W, n - W);
    first = n;
  }
}

/// Calls `tile(W, NV, first, last)` until all of `n` elements are covered. A row narrower than W
/// takes fewer lanes. With `kHeads`, W divides `inner`, which 4 divides.
template <int W, int NV, bool kHeads, typename Tile>
SMEX_INLINE void cover(int64_t n, int64_t inner, const Tile& tile) {
  if constexpr (W > (kHeads ? 4 : 1)) {
    if (kHeads ? inner % W != 0 : n < W)
      return cover<W / 2, kHeads ? NV : 1, kHeads>(n, inner, tile);
  }
  int64_t first = 0;
  cover_from<W, NV>(first, n, tile);
}

template <bool kHeads = false, typename T, typename I, typename Message>
void sum_piece(const SpmmTask<T, I>& task, int64_t index, const Message& message,
               const RowFactors<T>& factors, int64_t inner = 0) {
  using C = accumulate_t<T>;
  constexpr int kVectors = kVectorBytes == 64 ? 16 : 8;  // of 32 and 16 registers
  cover<kLanes<C>, kVectors, kHeads>(
      task.program->out_elements, inner, [&](auto w, auto nv, int64_t first, int64_t last) {
        sum_tile<w.value, nv.value>(task, index, message, factors, first, last);
      });
}

// ---- maxima and minima of a plain copy ----

/// A NaN wins, as in torch.amax; among equals the one that was there.
template <bool kMax, typename V>
SMEX_INLINE auto wins(const V& candidate, const V& best) {
  if constexpr (kMax) {
    return ~(candidate <= best) & (best == best);
  } else {
    return ~(candidate >= best) & (best == best);
  }
}

/// As above for numbers that are no NaN: one instruction with the choice that follows.
template <bool kMax, typename V>
SMEX_INLINE auto exceeds(const V& candidate, const V& best) {
  if constexpr (kMax) {
    return candidate > best;
  } else {
    return candidate < best;
  }
}

template <int W, int NV, bool kWinner, typename C, typename To, typename I>
SMEX_INLINE void write_extremum(const Vector<C, W>* best, const Mask<C, W>* place, int64_t base,
                                int64_t first, int64_t last, To* to, I* winner) {
#pragma GCC unroll 16
  for (int j = 0; j < NV; ++j) {
    const int64_t at = j == NV - 1 ? last : first + j * W;
    store<W>(to + at, best[j]);
    if constexpr (kWinner) {
      const auto position = __builtin_convertvector(place[j], Vector<I, W>) + static_cast<I>(base);
      std::memcpy(winner + at, &position, sizeof(position));
    }
  }
}

/// The extremum over the positions `begin` to `end` of a row that has some.
///
/// `kCareful` minds NaNs, which costs as much as all else; without it the row is fit for use only
/// if the result is true, which it is where all numbers are finite.
template <int W, int NV, bool kMax, bool kWinner, bool kCareful, typename T, typename I>
SMEX_INLINE bool extremum_of_row(const Rows<T, I>& x, int64_t begin, int64_t end,
                                 int64_t final_edge, int64_t first, int64_t last,
                                 Vector<accumulate_t<T>, W>* best,
                                 Mask<accumulate_t<T>, W>* place) {
  using C = accumulate_t<T>;
  using M = Mask<C, W>;
  constexpr int kBytes = W * NV * static_cast<int>(sizeof(T));
  const auto ask = [&](int64_t k) {
    const Ahead ahead(k, final_edge);
    prefetch<kBytes>(x.at(ahead.far) + first, x.at(ahead.near) + first);
  };
  ask(begin);
  const T* const start = x.at(begin);
  Vector<C, W> spoilt[NV];  // NaN as soon as a number is not finite
#pragma GCC unroll 16
  for (int j = 0; j < NV; ++j) {
    best[j] = load<C, W>(start + (j == NV - 1 ? last : first + j * W));
    place[j] = M{};
    spoilt[j] = best[j] * C(0);
  }
  typename MaskOf<C>::type step = 1;
  for (int64_t k = begin + 1; k < end; ++k, ++step) {
    ask(k);
    const T* const from = x.at(k);
#pragma GCC unroll 16
    for (int j = 0; j < NV; ++j) {
      const auto value = load<C, W>(from + (j == NV - 1 ? last : first + j * W));
      if constexpr (kCareful) {
        const auto better = wins<kMax>(value, best[j]);
        best[j] = better ? value : best[j];
        if constexpr (kWinner) place[j] = better ? M{} + step : place[j];
      } else {
        const auto better = exceeds<kMax>(value, best[j]);
        if constexpr (kWinner) place[j] = better ? M{} + step : place[j];
        best[j] = better ? value : best[j];
        spoilt[j] += value * C(0);
      }
    }
  }
#pragma GCC unroll 16
  for (int j = 1; j < NV; ++j) spoilt[0] += spoilt[j];
  const C all = sum_lanes<C, W>(spoilt[0]);
  return kCareful || all == all;
}

template <int W, int NV, bool kMax, bool kWinner, typename T, typename I>
void extremum_tile(const SpmmTask<T, I>& task, int64_t index, const Rows<T, I>& x, int64_t first,
                   int64_t last) {
  using C = accumulate_t<T>;
  constexpr bool kIsNarrow = NV < 4;  // the check of a row costs more than that of its numbers
  const Piece<I> piece(task.rows, index, task.num_pieces);
  const int64_t n = task.program->out_elements, final_edge = task.rows.num_edges - 1;
  piece.for_each_row([&](int64_t row, int64_t begin, int64_t end, Part part) {
    Vector<C, W> best[NV];
    Mask<C, W> place[NV] = {};
    if (begin == end) {
      const C none = part == Part::kWhole ? load_one(&task.empty) : C(0);
      for (int j = 0; j < NV; ++j) best[j] = splat<C, W>(none);
    } else if (kIsNarrow || !extremum_of_row<W, NV, kMax, kWinner, /*kCareful=*/false>(
                                x, begin, end, final_edge, first, last, best, place)) {
      extremum_of_row<W, NV, kMax, kWinner, /*kCareful=*/true>(x, begin, end, final_edge, first,
                                                               last, best, place);
    }
    const int64_t base = begin < end ? begin : -1;
    if (part == Part::kWhole) {
      write_extremum<W, NV, kWinner, C>(best, place, base, first, last, task.out + row * n,
                                        kWinner ? task.winner + row * n : nullptr);
    } else {
      const int64_t at = (index * 2 + static_cast<int>(part)) * n;
      write_extremum<W, NV, kWinner, C>(best, place, base, first, last, task.shared + at,
                                        kWinner ? task.shared_winner + at : nullptr);
    }
  });
}

template <bool kMax, bool kWinner, typename T, typename I>
void extremum_piece(const SpmmTask<T, I>& task, int64_t index, const Rows<T, I>& x) {
  using C = accumulate_t<T>;
  constexpr int kVectors = kVectorBytes == 64 ? 8 : 4;  // values and places share the registers
  cover<kLanes<C>, kVectors, /*kHeads=*/false>(
      task.program->out_elements, 0, [&](auto w, auto nv, int64_t first, int64_t last) {
        extremum_tile<w.value, nv.value, kMax, kWinner>(task, index, x, first, last);
      });
}

// ---- any message ----

template <typename T, typename I>
class GeneralPiece {
 public:
  using C = accumulate_t<T>;

  explicit GeneralPiece(const SpmmTask<T, I>& task)
      : task_(task),
        interpreter_(*task.program, task.operands),
        n_(task.program->out_elements),
        best_(new C[n_ + 1]),
        place_(new int64_t[n_ + 1]) {}
  ~GeneralPiece() {
    delete[] best_;
    delete[] place_;
  }

  void run(int64_t index) {
    const Piece<I> piece(task_.rows, index, task_.num_pieces);
    // The walk over rows runs ahead of the messages by a block; both see the same positions.
    message_ = message_end_ = piece.begin.edge;
    last_edge_ = piece.end.edge;
    block_row_ = piece.begin.row;
    piece.for_each_row([&](int64_t row, int64_t begin, int64_t end, Part part) {
      reset(begin == end);
      for (int64_t k = begin; k < end; ++k) {
        if (k == message_end_) next_block(k);
        combine(interpreter_.result() + (k - message_) * task_.program->elements, k, k == begin);
      }
      write(index, row, begin, end, part);
    });
  }

 private:
  void next_block(int64_t first) {
    EdgeBlock& block = block_;
    const int64_t room = last_edge_ - first, most = interpreter_.block_edges();
    block.size = static_cast<int>(room < most ? room : most);
    for (int i = 0; i < block.size; ++i) {
      const int64_t k = first + i;
      while (k >= int64_t{task_.rows.indptr[block_row_ + 1]}) ++block_row_;
      block.rows[i] = block_row_;
      block.columns[i] = task_.rows.indices[k];
      block.eids[i] = task_.rows.eids ? int64_t{task_.rows.eids[k]} : k;
    }
    interpreter_.run(block);
    message_ = first;
    message_end_ = first + block.size;
  }

  void reset(bool is_empty) {
    const bool sums = task_.reduce == Reduce::kSum || task_.reduce == Reduce::kMean;
    const C start = sums || !is_empty ? C(0) : load_one(&task_.empty);
    for (int64_t i = 0; i < n_; ++i) best_[i] = start;
    for (int64_t i = 0; i < n_; ++i) place_[i] = -1;
  }

  void combine(const C* message, int64_t k, bool is_first) {
    const int64_t pick = task_.program->pick;
    switch (task_.reduce) {
      case Reduce::kSum:
      case Reduce::kMean:
        if (pick == 1) {
          for (int64_t i = 0; i < n_; ++i) best_[i] += message[i];
        } else {
          for (int64_t i = 0; i < n_; ++i) best_[i] += message[i * pick];
        }
        return;
      case Reduce::kMax:
      case Reduce::kMin:
        for (int64_t i = 0; i < n_; ++i) {
          const C value = message[i * pick];
          const bool is_max = task_.reduce == Reduce::kMax;
          const bool better = is_max ? !(value <= best_[i]) : !(value >= best_[i]);
          if (is_first || (better && best_[i] == best_[i])) {
            best_[i] = value;
            place_[i] = k;
          }
        }
    }
  }

  void write(int64_t index, int64_t row, int64_t begin, int64_t end, Part part) {
    const int64_t at = part == Part::kWhole ? row * n_ : (index * 2 + static_cast<int>(part)) * n_;
    if (task_.winner) {
      I* const to = (part == Part::kWhole ? task_.winner : task_.shared_winner) + at;
      for (int64_t i = 0; i < n_; ++i) to[i] = static_cast<I>(place_[i]);
    }
    if (part != Part::kWhole) {
      for (int64_t i = 0; i < n_; ++i) task_.shared[at + i] = best_[i];
      return;
    }
    const bool divides = task_.reduce == Reduce::kMean && end > begin;
    const C degree = divides ? static_cast<C>(end - begin) : C(1);
    for (int64_t i = 0; i < n_; ++i) store_one(task_.out + at + i, best_[i] / degree);
  }

  const SpmmTask<T, I>& task_;
  Interpreter<T> interpreter_;
  EdgeBlock block_;
  int64_t n_;
  C* best_;
  int64_t* place_;
  int64_t message_ = 0, message_end_ = 0, last_edge_ = 0, block_row_ = 0;
};

// ---- choice ----

template <typename T, typename I>
Rows<T, I> rows_of(const SpmmTask<T, I>& task, const ProgramOperand& read) {
  return {task.operands[read.index],
          read.target == Target::kSource ? task.rows.indices : task.rows.eids,
          read.broadcast.row_size};
}

/// True for a product of all operands, each of them once.
bool is_product(const Program& program) {
  if (program.operands.size() != program.code.size() + 1) return false;
  for (const Instruction& step : program.code)
    if (step.op != MessageOp::kMul || step.b < 0) return false;
  return true;
}

/// True when a loop of its own has done the piece.
template <typename T, typename I>
bool run_sum(const SpmmTask<T, I>& task, int64_t index) {
  constexpr int W = kLanes<accumulate_t<T>>;
  const Program& program = *task.program;
  const ProgramOperand *wide = nullptr, *other = nullptr;
  RowFactors<T> factors;
  for (const ProgramOperand& read : program.operands) {
    const bool is_full = read.broadcast.kind == Broadcast::Kind::kFull;
    if (read.target == Target::kDestination) {
      if (!is_full && read.broadcast.kind != Broadcast::Kind::kScalar) return false;
      if (factors.count == RowFactors<T>::kMost) return false;
      factors.factors[factors.count++] = {task.operands[read.index], read.broadcast.row_size};
    } else if (read.target == Target::kShared) {
      return false;
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
      sum_piece(task, index, ScaledMessage<T, I>{x, y}, factors);
      return true;
    case Broadcast::Kind::kHead:
      // Whole vectors only, so that none begins inside of a head.
      if (inner == 2 && W > 2 && program.out_elements % W == 0) {
        sum_piece(task, index, NarrowHeadMessage<2, T, I>{x, y}, factors);
        return true;
      }
      if (inner % 4 != 0) return false;
      sum_piece<true>(task, index, HeadScaledMessage<T, I>{x, y, inner}, factors, inner);
      return true;
    default:
      return false;
  }
}

template <typename T, typename I>
bool run_extremum(const SpmmTask<T, I>& task, int64_t index) {
  const ProgramOperand& read = task.program->operands[0];
  if (read.target == Target::kDestination || read.target == Target::kShared) return false;
  const auto x = rows_of(task, read);
  const bool is_max = task.reduce == Reduce::kMax;
  if (task.winner) {
    is_max ? extremum_piece<true, true>(task, index, x)
           : extremum_piece<false, true>(task, index, x);
  } else {
    is_max ? extremum_piece<true, false>(task, index, x)
           : extremum_piece<false, false>(task, index, x);
  }
  return true;
}

template <typename T, typename I>
bool run_special(const SpmmTask<T, I>& task, int64_t index) {
  const bool sums = task.reduce == Reduce::kSum || task.reduce == Reduce::kMean;
  if (!is_product(*task.program)) return false;
  if (sums) return run_sum(task, index);
  return task.program->code.empty() && run_extremum(task, index);
}

}  // namespace

template <typename T, typename I>
void spmm_pieces(const SpmmTask<T, I>& task, int64_t begin, int64_t end) {
  if (task.program->out_elements == 0) return;
  int64_t index = begin;
  while (index < end && run_special(task, index)) ++index;
  if (index == end) return;
  GeneralPiece<T, I> general(task);
  for (; index < end; ++index) general.run(index);
}

template <typename T, typename I>
void spmm_finish(const SpmmTask<T, I>& task) {
  using C = accumulate_t<T>;
  const int64_t n = task.program->out_elements;
  const bool sums = task.reduce == Reduce::kSum || task.reduce == Reduce::kMean;
  for_each_shared_row(task.rows, task.num_pieces, [&](int64_t row, int64_t first, int64_t last) {
    const int64_t stop = task.rows.indptr[row + 1];
    // The last piece may have nothing of the row but its end.
    if (Piece<I>(task.rows, last, task.num_pieces).begin.edge == stop) --last;
    const C degree = static_cast<C>(stop - task.rows.indptr[row]);
    for (int64_t i = 0; i < n; ++i) {
      int64_t at = (first * 2 + static_cast<int>(Part::kTail)) * n + i;
      C best = task.shared[at];
      I place = task.winner ? task.shared_winner[at] : I(0);
      for (int64_t p = first + 1; p <= last; ++p) {
        at = (p * 2 + static_cast<int>(Part::kHead)) * n + i;
        const C value = task.shared[at];
        if (sums) {
          best += value;
          continue;
        }
        const bool better = task.reduce == Reduce::kMax ? !(value <= best) : !(value >= best);
        if (!better || best != best) continue;
        best = value;
        if (task.winner) place = task.shared_winner[at];
      }
      if (task.reduce == Reduce::kMean) best /= degree;
      store_one(task.out + row * n + i, best);
      if (task.winner) task.winner[row * n + i] = place;
    }
  });
}

#define SMEX_INSTANTIATE(T, I)                                                        \
  template void spmm_pieces<T, I>(const SpmmTask<T, I>&, int64_t begin, int64_t end); \
  template void spmm_finish<T, I>(const SpmmTask<T, I>&);
SMEX_INSTANTIATE(float, int32_t)
SMEX_INSTANTIATE(float, int64_t)
SMEX_INSTANTIATE(double, int32_t)
SMEX_INSTANTIATE(double, int64_t)
SMEX_INSTANTIATE(BFloat16, int32_t)
SMEX_INSTANTIATE(BFloat16, int64_t)
SMEX_INSTANTIATE(Half, int32_t)
SMEX_INSTANTIATE(Half, int64_t)
#undef SMEX_INSTANTIATE

}  // namespace smex::kernels::SMEX_ISA
