// What a team keeps of a row while it goes through the row's edges.
#pragma once

#include "kernels/message/cuda/device.cuh"
#include "kernels/message/cuda/runs.cuh"
#include "kernels/spmm/spmm.h"

namespace smex::kernels {

/// What kernels need of a task.
template <typename T, typename I>
struct SpmmRows {
  using C = accumulate_t<T>;

  EdgeRows<I> rows;
  int64_t num_pieces = 1;
  int64_t n = 1;  ///< elements of a row of the result
  Reduce reduce = Reduce::kSum;
  T empty = {};
  T* out = nullptr;
  I* winner = nullptr;
  C* shared = nullptr;  ///< [num_pieces, 2, n]
  I* shared_winner = nullptr;

  explicit SpmmRows(const SpmmTask<T, I>& task)
      : rows(task.rows),
        num_pieces(task.num_pieces),
        n(task.program->out_elements),
        reduce(task.reduce),
        empty(task.empty),
        out(task.out),
        winner(task.winner),
        shared(task.shared),
        shared_winner(task.shared_winner) {}

  SMEX_DEVICE int64_t shared_at(int64_t piece, RowPart part, int64_t column) const {
    return (piece * 2 + static_cast<int>(part)) * n + column;
  }
};

/// The sum of V neighbouring elements.
template <typename T, typename I, int V>
struct SumState {
  using C = accumulate_t<T>;
  C value[V];

  SMEX_DEVICE explicit SumState(const SpmmRows<T, I>&) {
#pragma unroll
    for (int i = 0; i < V; ++i) value[i] = C(0);
  }

  SMEX_DEVICE void add(const C (&x)[V], int64_t) {
#pragma unroll
    for (int i = 0; i < V; ++i) value[i] += x[i];
  }

  SMEX_DEVICE void merge(const SumState& later) { add(later.value, 0); }

  SMEX_DEVICE void load(const SpmmRows<T, I>& task, int64_t at) {
#pragma unroll
    for (int i = 0; i < V; ++i) value[i] = task.shared[at + i];
  }
  SMEX_DEVICE void save(const SpmmRows<T, I>& task, int64_t at) const {
    store_vector<V>(task.shared + at, value);
  }

  SMEX_DEVICE void finish(const SpmmRows<T, I>& task, int64_t row, int64_t degree, int64_t column) {
    if (task.reduce == Reduce::kMean && degree > 0) {
#pragma unroll
      for (int i = 0; i < V; ++i) value[i] /= static_cast<C>(degree);
    }
    store_vector<V>(task.out + row * task.n + column, value);
  }
};

/// The largest or smallest of V neighbouring elements, and where they came from: -1 is nowhere.
template <typename T, typename I, int V>
struct ExtremumState {
  using C = accumulate_t<T>;
  C value[V];
  I place[V];
  bool is_max;

  SMEX_DEVICE explicit ExtremumState(const SpmmRows<T, I>& task)
      : is_max(task.reduce == Reduce::kMax) {
    const C none = widen(task.empty);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      value[i] = none;
      place[i] = -1;
    }
  }

  /// The first of equals wins, and the first NaN of all, as in torch.amax.
  SMEX_DEVICE void take(int i, C candidate, I from) {
    const bool is_better = is_max ? candidate > value[i] : candidate < value[i];
    if (place[i] >= 0 && (value[i] != value[i] || (!is_better && candidate == candidate))) return;
    value[i] = candidate;
    place[i] = from;
  }

  SMEX_DEVICE void add(const C (&x)[V], int64_t k) {
#pragma unroll
    for (int i = 0; i < V; ++i) take(i, x[i], static_cast<I>(k));
  }

  SMEX_DEVICE void merge(const ExtremumState& later) {
#pragma unroll
    for (int i = 0; i < V; ++i)
      if (later.place[i] >= 0) take(i, later.value[i], later.place[i]);
  }

  SMEX_DEVICE void load(const SpmmRows<T, I>& task, int64_t at) {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      value[i] = task.shared[at + i];
      place[i] = task.winner ? task.shared_winner[at + i] : I(0);  // parts in a run have edges
    }
  }
  SMEX_DEVICE void save(const SpmmRows<T, I>& task, int64_t at) const {
    store_vector<V>(task.shared + at, value);
    if (task.winner) save_places(task.shared_winner + at);
  }

  SMEX_DEVICE void finish(const SpmmRows<T, I>& task, int64_t row, int64_t, int64_t column) const {
    store_vector<V>(task.out + row * task.n + column, value);
    if (task.winner) save_places(task.winner + row * task.n + column);
  }

 private:
  SMEX_DEVICE void save_places(I* to) const {
#pragma unroll
    for (int i = 0; i < V; ++i) to[i] = place[i];
  }
};

/// Puts what a team has of the walk's row where it belongs.
template <typename T, typename I, typename State>
SMEX_DEVICE void put(const SpmmRows<T, I>& task, int64_t piece, const PieceWalk<I>& walk,
                     int64_t column, State& state) {
  if (walk.part == RowPart::kWhole) {
    state.finish(task, walk.row, walk.last - walk.first, column);
  } else {
    state.save(task, task.shared_at(piece, walk.part, column));
  }
}

/// How runs of parts become rows.
template <typename T, typename I, typename State>
struct SpmmFold {
  SpmmRows<T, I> task;

  SMEX_DEVICE State none() const { return State(task); }
  SMEX_DEVICE State load(int64_t piece, RowPart part, int64_t column) const {
    State state(task);
    state.load(task, task.shared_at(piece, part, column));
    return state;
  }
  SMEX_DEVICE void store(const PieceRun& run, int64_t column, State state) const {
    const int64_t degree = int64_t{task.rows.indptr[run.row + 1]} - task.rows.indptr[run.row];
    state.finish(task, run.row, degree, column);
  }
};

}  // namespace smex::kernels
