// Puts together what pieces know of rows they share, without atomics and always in the same order.
#pragma once

#include "edges/walk.h"
#include "kernels/message/cuda/device.cuh"

namespace smex::kernels {

/// Runs of more pieces are put together by a whole block: a hub's would keep a team busy for long.
constexpr int64_t kLongRun = 32;
constexpr int kRunThreads = 512;

// `Fold` says what is put together, column by column:
//   State none() const                      of no edges at all
//   State load(piece, part, column) const   what a piece has
//   void store(run, column, state) const    of a whole row
// and `state.merge(other)` adds edges that come behind.

template <typename Fold, typename I>
SMEX_DEVICE auto merged(const Fold& fold, const PieceRun& run, int64_t begin, int64_t end,
                        int64_t column) {
  auto state = fold.none();
#pragma unroll 4
  for (int64_t p = begin; p < end; ++p)
    state.merge(fold.load(p, p == run.first ? RowPart::kTail : RowPart::kHead, column));
  return state;
}

/// A team for each piece that a short run begins with, and each tile of columns.
template <typename Fold, typename I>
__global__ void __launch_bounds__(kThreads)
    short_runs_kernel(EdgeRows<I> rows, int64_t num_pieces, int64_t columns, int lanes, Fold fold) {
  const Team team(lanes);
  const int64_t tiles = (columns + lanes - 1) / lanes;
  for (int64_t unit = team.index(); unit < num_pieces * tiles; unit += team.count()) {
    const int64_t piece = unit / tiles, column = (unit - piece * tiles) * lanes + team.lane;
    PieceRun run;
    if (column >= columns || !run_from(rows, piece, num_pieces, &run)) continue;
    if (run.last - run.first >= kLongRun) continue;
    fold.store(run, column, merged<Fold, I>(fold, run, run.first, run.last + 1, column));
  }
}

/// A block for each window of pieces, in which at most one long run begins, and each tile.
template <typename Fold, typename I>
__global__ void __launch_bounds__(kRunThreads)
    long_runs_kernel(EdgeRows<I> rows, int64_t num_pieces, int64_t columns, int lanes, Fold fold) {
  using State = decltype(fold.none());
  __shared__ int64_t found;
  alignas(16) __shared__ unsigned char storage[kRunThreads * sizeof(State)];
  State* const states = reinterpret_cast<State*>(storage);
  const int64_t tiles = (columns + lanes - 1) / lanes;
  const int64_t units = (num_pieces + kLongRun - 1) / kLongRun * tiles;
  const int thread = static_cast<int>(threadIdx.x);
  const int slices = kRunThreads / lanes, slice = thread / lanes;
  for (int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const int64_t window = unit / tiles;
    const int64_t column = (unit - window * tiles) * lanes + thread % lanes;
    if (thread == 0) found = -1;
    __syncthreads();
    PieceRun run;
    const int64_t piece = window * kLongRun + thread;
    if (thread < kLongRun && piece < num_pieces && run_from(rows, piece, num_pieces, &run) &&
        run.last - run.first >= kLongRun)
      found = piece;
    __syncthreads();
    const int64_t first = found;
    if (first >= 0) {  // the same for all threads of the block
      run_from(rows, first, num_pieces, &run);
      const int64_t count = run.last - run.first + 1, each = (count + slices - 1) / slices;
      const int64_t from = run.first + slice * each, to = from + each;
      State state = fold.none();
      if (column < columns)
        state = merged<Fold, I>(fold, run, from, to < run.last + 1 ? to : run.last + 1, column);
      states[thread] = state;
      // Neighbouring slices meet, so that edges stay in order.
      for (int distance = 1; distance < slices; distance *= 2) {
        __syncthreads();
        if (slice % (2 * distance) == 0) states[thread].merge(states[thread + distance * lanes]);
      }
      if (slice == 0 && column < columns) fold.store(run, column, states[thread]);
    }
    __syncthreads();  // before `found` and `states` are written again
  }
}

template <typename Fold, typename I>
void finish_runs(const EdgeRows<I>& rows, int64_t num_pieces, int64_t columns, const Fold& fold,
                 CUstream_st* stream) {
  if (num_pieces <= 1 || columns == 0) return;
  const int lanes = lanes_for(columns);
  const int64_t tiles = ceil_div(columns, lanes);
  launch(short_runs_kernel<Fold, I>, blocks_for(num_pieces * tiles, kThreads / lanes), kThreads,
         stream, rows, num_pieces, columns, lanes, fold);
  if (num_pieces <= kLongRun) return;
  const int64_t windows = ceil_div(num_pieces, kLongRun);
  launch(long_runs_kernel<Fold, I>, blocks_for(windows * tiles, 1), kRunThreads, stream, rows,
         num_pieces, columns, lanes, fold);
}

}  // namespace smex::kernels
