// Maxima and minima of a plain copy, by whole vectors. Compiled once for each instruction set.
#include "edges/piece.h"
#include "kernels/message/instantiate.h"
#include "kernels/spmm/cpu/special.h"
#include "kernels/spmm/cpu/tiles.h"

namespace smex::kernels::SMEX_ISA {
namespace {

/// True where a candidate takes the place of the best; see `takes_over`.
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
                                const Tile<W, NV>& tile, To* to, I* winner) {
#pragma GCC unroll 16
  for (int j = 0; j < NV; ++j) {
    const int64_t at = tile.at(j);
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
SMEX_INLINE bool extremum_of_row(const OperandRows<T, I>& x, int64_t begin, int64_t end,
                                 int64_t final_edge, const Tile<W, NV>& tile,
                                 Vector<accumulate_t<T>, W>* best,
                                 Mask<accumulate_t<T>, W>* place) {
  using C = accumulate_t<T>;
  using M = Mask<C, W>;
  const auto ask = [&](int64_t k) {
    const Ahead ahead(k, final_edge);
    prefetch_tile(tile, x.at(ahead.far), x.at(ahead.near));
  };
  ask(begin);
  const auto start = tile.of(x.at(begin));
  Vector<C, W> spoilt[NV];  // NaN as soon as a number is not finite
#pragma GCC unroll 16
  for (int j = 0; j < NV; ++j) {
    best[j] = load<C, W>(start.at(j));
    place[j] = M{};
    spoilt[j] = best[j] * C(0);
  }
  typename MaskOf<C>::type step = 1;
  for (int64_t k = begin + 1; k < end; ++k, ++step) {
    ask(k);
    const auto from = tile.of(x.at(k));
#pragma GCC unroll 16
    for (int j = 0; j < NV; ++j) {
      const auto value = load<C, W>(from.at(j));
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

template <bool kMax, bool kWinner, int W, int NV, typename T, typename I>
void extremum_tile(const SpmmTask<T, I>& task, int64_t index, const OperandRows<T, I>& x,
                   Tile<W, NV> tile) {
  using C = accumulate_t<T>;
  constexpr bool kIsNarrow = NV < 4;  // the check of a row costs more than that of its numbers
  const Piece<I> piece(task.rows, index, task.num_pieces);
  const int64_t n = task.program->out_elements, final_edge = task.rows.num_edges - 1;
  piece.for_each_row([&](int64_t row, int64_t begin, int64_t end, RowPart part) {
    Vector<C, W> best[NV];
    Mask<C, W> place[NV] = {};
    if (begin == end) {
      const C none = part == RowPart::kWhole ? load_one(&task.empty) : C(0);
      for (int j = 0; j < NV; ++j) best[j] = splat<C, W>(none);
    } else if (kIsNarrow || !extremum_of_row<W, NV, kMax, kWinner, /*kCareful=*/false>(
                                x, begin, end, final_edge, tile, best, place)) {
      extremum_of_row<W, NV, kMax, kWinner, /*kCareful=*/true>(x, begin, end, final_edge, tile,
                                                               best, place);
    }
    const int64_t base = begin < end ? begin : -1;
    if (part == RowPart::kWhole) {
      write_extremum<W, NV, kWinner, C>(best, place, base, tile, task.out + row * n,
                                        kWinner ? task.winner + row * n : nullptr);
    } else {
      const int64_t at = (index * 2 + static_cast<int>(part)) * n;
      write_extremum<W, NV, kWinner, C>(best, place, base, tile, task.shared + at,
                                        kWinner ? task.shared_winner + at : nullptr);
    }
  });
}

template <bool kMax, bool kWinner, typename T, typename I>
void extremum_piece(const SpmmTask<T, I>& task, int64_t index, const OperandRows<T, I>& x) {
  using C = accumulate_t<T>;
  constexpr int kVectors = kVectorBytes == 64 ? 8 : 4;  // values and places share the registers
  cover<kLanes<C>, kVectors, /*kHeads=*/false>(
      task.program->out_elements, 0,
      [&](const auto& tile) { extremum_tile<kMax, kWinner>(task, index, x, tile); });
}

}  // namespace

template <typename T, typename I>
bool run_extremum(const SpmmTask<T, I>& task, int64_t index) {
  const MessageOperand& read = task.program->operands[0];
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

#define SMEX_INSTANTIATE(T, I) \
  template bool run_extremum<T, I>(const SpmmTask<T, I>&, int64_t index);
SMEX_FOR_EACH_TYPE(SMEX_INSTANTIATE)
#undef SMEX_INSTANTIATE

}  // namespace smex::kernels::SMEX_ISA
