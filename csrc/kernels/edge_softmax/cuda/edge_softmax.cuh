// Kernels of smex::edge_softmax and its gradient.
#pragma once

#include "edges/walk.h"
#include "kernels/edge_softmax/cuda/edge_softmax.h"
#include "kernels/edge_softmax/statistics.h"
#include "kernels/message/cuda/device.cuh"
#include "kernels/message/cuda/runs.cuh"

namespace smex::kernels {

// ---- what is gathered from the edges of a row, in two numbers ----

/// Forward: the largest score and the sum of exponentials.
template <typename T, typename I>
struct ForwardState {
  using C = accumulate_t<T>;
  SoftmaxStatistics<C> kept;

  SMEX_DEVICE void add(const EdgeSoftmaxTask<T, I>& task, int64_t at) {
    kept.add(widen(task.score[at]));
  }
  SMEX_DEVICE void merge(const ForwardState& later) { kept.merge(later.kept); }
  SMEX_DEVICE C result(const EdgeSoftmaxTask<T, I>& task, int64_t at) const {
    return kept.result(widen(task.score[at]));
  }
  SMEX_DEVICE C first() const { return kept.largest; }
  SMEX_DEVICE C second() const { return kept.sum; }
  SMEX_DEVICE void set(C first, C second) {
    kept.largest = first;
    kept.sum = second;
  }
};

/// Backward: the sum of `y * grad`; the first number is not used.
template <typename T, typename I>
struct BackwardState {
  using C = accumulate_t<T>;
  C sum = 0;

  SMEX_DEVICE void add(const EdgeSoftmaxTask<T, I>& task, int64_t at) {
    sum += widen(task.score[at]) * widen(task.grad[at]);
  }
  SMEX_DEVICE void merge(const BackwardState& later) { sum += later.sum; }
  SMEX_DEVICE C result(const EdgeSoftmaxTask<T, I>& task, int64_t at) const {
    return widen(task.score[at]) * (widen(task.grad[at]) - sum);
  }
  SMEX_DEVICE C first() const { return C(0); }
  SMEX_DEVICE C second() const { return sum; }
  SMEX_DEVICE void set(C, C second) { sum = second; }
};

template <typename T, typename I, typename State>
SMEX_DEVICE State load_shared(const EdgeSoftmaxTask<T, I>& task, int64_t piece, RowPart part,
                              int64_t column) {
  const int64_t n = task.elements;
  const accumulate_t<T>* const from = task.shared + (piece * 2 + static_cast<int>(part)) * 2 * n;
  State state;
  state.set(from[column], from[n + column]);
  return state;
}

template <typename T, typename I, typename State>
SMEX_DEVICE void save_shared(const EdgeSoftmaxTask<T, I>& task, int64_t piece, RowPart part,
                             int64_t column, const State& state) {
  const int64_t n = task.elements;
  accumulate_t<T>* const to = task.shared + (piece * 2 + static_cast<int>(part)) * 2 * n;
  to[column] = state.first();
  to[n + column] = state.second();
}

/// What is known of a whole row takes the place of what its first piece knew.
template <typename T, typename I, typename State>
struct SoftmaxFold {
  EdgeSoftmaxTask<T, I> task;

  SMEX_DEVICE State none() const { return State(); }
  SMEX_DEVICE State load(int64_t piece, RowPart part, int64_t column) const {
    return load_shared<T, I, State>(task, piece, part, column);
  }
  SMEX_DEVICE void store(const PieceRun& run, int64_t column, const State& state) const {
    save_shared(task, run.first, RowPart::kTail, column, state);
  }
};

// ---- kernels ----

/// How the lanes of a team share edges and elements: `columns` neighbouring elements of as many
/// edges as there are lanes for.
struct SoftmaxLanes {
  int lanes = kWarp;
  int columns = 1;
  int64_t tiles = 1;

  template <typename T, typename I>
  static SoftmaxLanes of(const EdgeSoftmaxTask<T, I>& task) {
    SoftmaxLanes result;
    result.columns = lanes_for(task.elements);
    // As many edges at a time as a row has on average.
    const int64_t degree = ceil_div(task.rows.num_edges, task.rows.num_rows);
    result.lanes = degree >= kWarp ? kWarp : lanes_for(degree * result.columns);
    if (result.lanes < result.columns) result.lanes = result.columns;
    result.tiles = ceil_div(task.elements, result.columns);
    return result;
  }
};

/// Brings together what the lanes of a column know; all of them get the same.
template <typename State>
SMEX_DEVICE State across_edges(State state, const Team& team, int columns) {
  for (int distance = columns; distance < team.lanes; distance *= 2) {
    const auto first = team.across(state.first(), distance);
    const auto second = team.across(state.second(), distance);
    State other;
    other.set(first, second);
    state.merge(other);
  }
  const int lane = team.lane & (columns - 1);
  const auto first = team.from_lane(state.first(), lane);
  const auto second = team.from_lane(state.second(), lane);
  state.set(first, second);
  return state;
}

template <typename T, typename I, typename State>
SMEX_DEVICE void write_part(const EdgeSoftmaxTask<T, I>& task, const PieceWalk<I>& walk,
                            int64_t begin, int64_t step, int64_t column, const State& state) {
  for (int64_t k = begin; k < walk.last; k += step) {
    const int64_t eid = task.rows.eids ? int64_t{task.rows.eids[k]} : k;
    const int64_t at = eid * task.elements + column;
    store_number(task.out + at, state.result(task, at));
  }
}

/// The rows that lie within a piece; of others what the piece knows.
template <typename T, typename I, typename State>
__global__ void __launch_bounds__(kThreads)
    softmax_kernel(EdgeSoftmaxTask<T, I> task, SoftmaxLanes layout) {
  const Team team(layout.lanes);
  const int64_t units = task.num_pieces * layout.tiles;
  const int offset = team.lane / layout.columns, step = layout.lanes / layout.columns;
  for (int64_t unit = team.index(); unit < units; unit += team.count()) {
    const int64_t piece = unit / layout.tiles, tile = unit - piece * layout.tiles;
    const int64_t column = tile * layout.columns + team.lane % layout.columns;
    const bool exists = column < task.elements;
    PieceWalk<I> walk(task.rows, piece, task.num_pieces);
    while (walk.next()) {
      const int64_t begin = exists ? walk.first + offset : walk.last;
      State state;
#pragma unroll 4
      for (int64_t k = begin; k < walk.last; k += step) {
        const int64_t eid = task.rows.eids ? int64_t{task.rows.eids[k]} : k;
        state.add(task, eid * task.elements + column);
      }
      state = across_edges(state, team, layout.columns);
      if (walk.part == RowPart::kWhole) {
        write_part(task, walk, begin, step, column, state);
      } else if (exists && offset == 0) {
        save_shared(task, piece, walk.part, column, state);
      }
    }
  }
}

/// After runs are put together: the rows that pieces share.
template <typename T, typename I, typename State>
__global__ void __launch_bounds__(kThreads)
    shared_softmax_kernel(EdgeSoftmaxTask<T, I> task, SoftmaxLanes layout) {
  const Team team(layout.lanes);
  const int64_t units = task.num_pieces * layout.tiles;
  const int offset = team.lane / layout.columns, step = layout.lanes / layout.columns;
  for (int64_t unit = team.index(); unit < units; unit += team.count()) {
    const int64_t piece = unit / layout.tiles, tile = unit - piece * layout.tiles;
    const int64_t column = tile * layout.columns + team.lane % layout.columns;
    if (column >= task.elements) continue;
    PieceWalk<I> walk(task.rows, piece, task.num_pieces, /*shared_only=*/true);
    while (walk.next()) {
      if (walk.first == walk.last) continue;
      const PieceRun run = run_of_row(task.rows, walk.row, task.num_pieces);
      const State state = load_shared<T, I, State>(task, run.first, RowPart::kTail, column);
      write_part(task, walk, walk.first + offset, step, column, state);
    }
  }
}

// ---- launches ----

template <typename State, typename T, typename I>
void launch_softmax(const EdgeSoftmaxTask<T, I>& task, CUstream_st* stream) {
  const SoftmaxLanes layout = SoftmaxLanes::of(task);
  const unsigned blocks = blocks_for(task.num_pieces * layout.tiles, kThreads / layout.lanes);
  launch(softmax_kernel<T, I, State>, blocks, kThreads, stream, task, layout);
  if (task.num_pieces <= 1) return;
  finish_runs(task.rows, task.num_pieces, task.elements, SoftmaxFold<T, I, State>{task}, stream);
  launch(shared_softmax_kernel<T, I, State>, blocks, kThreads, stream, task, layout);
}

template <typename T, typename I>
void edge_softmax_cuda(const EdgeSoftmaxTask<T, I>& task, CUstream_st* stream) {
  if (task.rows.num_rows == 0 || task.rows.num_edges == 0 || task.elements == 0) return;
  if (task.grad) {
    launch_softmax<BackwardState<T, I>>(task, stream);
  } else {
    launch_softmax<ForwardState<T, I>>(task, stream);
  }
}

}  // namespace smex::kernels
