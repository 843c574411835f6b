// Kernels of smex::sddmm.
#pragma once

#include <algorithm>
#include <type_traits>

#include "edges/walk.h"
#include "kernels/message/cuda/machine.cuh"
#include "kernels/sddmm/cuda/sddmm.h"

namespace smex::kernels {

/// Neighbouring edges that a warp works on: long enough that finding the row of the first one, a
/// binary search, is little of the work.
struct EdgeChunks {
  int64_t edges = 0;  ///< in each chunk
  int64_t count = 0;

  /// A multiple of `together` edges.
  static EdgeChunks of(int64_t num_edges, int64_t threads_per_edge, int64_t together = 1) {
    constexpr int64_t kWantedThreads = 1 << 18, kLeast = kWarp, kMost = 256;
    const int64_t warps = kWantedThreads / kWarp;
    const int64_t wanted = ceil_div(num_edges, warps);
    const int64_t least = std::max<int64_t>(1, kLeast / std::max<int64_t>(1, threads_per_edge));
    const int64_t edges = ceil_div(std::clamp(wanted, least, kMost), together) * together;
    return {edges, ceil_div(num_edges, edges)};
  }
};

/// The things that a team has to do, `per_edge` of them for each edge of its warp's chunk; teams of
/// a warp take turns, so that their addresses are neighbours.
template <typename I>
struct ChunkItems {
  const EdgeRows<I>& rows;
  int64_t first, last;  ///< positions
  int64_t per_edge;
  int64_t at, end, step;
  int64_t row = 0;

  SMEX_DEVICE ChunkItems(const EdgeRows<I>& rows, int64_t chunk, int64_t edges, int64_t per_edge,
                         const Team& team, bool needs_row)
      : rows(rows),
        first(chunk * edges),
        last(first + edges < rows.num_edges ? first + edges : rows.num_edges),
        per_edge(per_edge),
        at(static_cast<int>(threadIdx.x % kWarp) / team.lanes),
        end((last - first) * per_edge),
        step(kWarp / team.lanes),
        needs_row_(needs_row) {}

  SMEX_DEVICE bool is_done() const { return at >= end; }
  SMEX_DEVICE void advance() { at += step; }

  /// The position of the present edge; `row` becomes its row where that is needed.
  SMEX_DEVICE int64_t position() {
    const int64_t k = first + StridedIndex::quotient(at, per_edge);
    if (needs_row_) row = row_of(rows, k, row);
    return k;
  }
  SMEX_DEVICE int64_t item() const { return at - StridedIndex::quotient(at, per_edge) * per_edge; }

 private:
  bool needs_row_;
};

template <typename I>
SMEX_DEVICE int64_t edge_id(const EdgeRows<I>& rows, int64_t k) {
  return rows.eids ? int64_t{rows.eids[k]} : k;
}

// ---- sums of products over groups of elements: dot products, one for each head ----

template <typename T>
struct DotOperand {
  const T* data = nullptr;
  Target target = Target::kSource;
  int64_t size = 0;

  template <typename I>
  SMEX_DEVICE const T* at(const EdgeRows<I>& rows, int64_t row, int64_t k) const {
    if (target == Target::kDestination) return data + row * size;
    if (target == Target::kShared) return data;
    return data + (target == Target::kSource ? int64_t{rows.indices[k]} : edge_id(rows, k)) * size;
  }
};

template <typename T, typename I>
struct DotTask {
  EdgeRows<I> rows;
  DotOperand<T> x, y;
  T* out = nullptr;
  int64_t heads = 1, inner = 1;
  EdgeChunks chunks;
};

/// Neighbouring edges that a team works on at once: their loads are under way at the same time, a
/// destination that they share is read once, and their sums are added up over lanes together.
constexpr int kDotEdges = 4;
constexpr int kMostDotLanes = 8;

/// Of kDotEdges sums of each lane one over the team, which has at least as many lanes: that of the
/// number `*of`, the same for neighbouring lanes.
template <typename C>
SMEX_DEVICE C team_sums(const Team& team, C (&sums)[kDotEdges], int* of) {
  static_assert(kDotEdges == 4);
  const int half = team.lanes / 2, quarter = team.lanes / 4;
  const bool upper = (team.lane & half) != 0, odd = (team.lane & quarter) != 0;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const C given = team.across(upper ? sums[j] : sums[j + 2], half);
    sums[j] = (upper ? sums[j + 2] : sums[j]) + given;
  }
  const C given = team.across(odd ? sums[0] : sums[1], quarter);
  C sum = (odd ? sums[1] : sums[0]) + given;
  for (int distance = quarter / 2; distance > 0; distance /= 2) sum += team.across(sum, distance);
  *of = (upper ? 2 : 0) + (odd ? 1 : 0);
  return sum;
}

/// A team for each kDotEdges neighbouring edges and each head.
template <typename T, typename I, int V>
__global__ void __launch_bounds__(kThreads, 3) dot_kernel(DotTask<T, I> task, int lanes) {
  using C = accumulate_t<T>;
  const Team team(lanes), warp(kWarp);
  const EdgeRows<I>& rows = task.rows;
  const bool needs_row =
      task.x.target == Target::kDestination || task.y.target == Target::kDestination;
  for (int64_t chunk = warp.index(); chunk < task.chunks.count; chunk += warp.count()) {
    const int64_t first = chunk * task.chunks.edges;
    const int64_t end = first + task.chunks.edges;
    const int64_t last = end < rows.num_edges ? end : rows.num_edges;
    const int64_t items = (last - first + kDotEdges - 1) / kDotEdges * task.heads;
    int64_t row = 0;
    for (int64_t at = static_cast<int>(threadIdx.x % kWarp) / lanes; at < items;
         at += kWarp / lanes) {
      const int64_t group = task.heads == 1 ? at : StridedIndex::quotient(at, task.heads);
      const int64_t head = at - group * task.heads;
      const int64_t begin = first + group * kDotEdges;
      const T *x[kDotEdges], *y[kDotEdges];
      if (needs_row) row = row_of(rows, begin, row);
      const bool one_row = needs_row && begin + kDotEdges <= int64_t{rows.indptr[row + 1]};
      int64_t edge_row = row;
#pragma unroll
      for (int j = 0; j < kDotEdges; ++j) {
        const int64_t k = begin + j < last ? begin + j : last - 1;  // again, and not stored
        if (needs_row && !one_row) edge_row = row_of(rows, k, edge_row);
        x[j] = task.x.at(rows, edge_row, k) + head * task.inner;
        y[j] = task.y.at(rows, edge_row, k) + head * task.inner;
      }
      // Rows are in order, so that what lies between the same ones is the same.
      const bool same_x = x[0] == x[kDotEdges - 1] && task.x.target == Target::kDestination;
      const bool same_y = y[0] == y[kDotEdges - 1] && task.y.target == Target::kDestination;
      C sums[kDotEdges] = {};
      for (int64_t i = team.lane * V; i < task.inner; i += lanes * V) {
        C a[kDotEdges][V], b[kDotEdges][V];
#pragma unroll
        for (int j = 0; j < kDotEdges; ++j) {
          if (j == 0 || !same_x) load_vector<V>(x[j] + i, a[j]);
          if (j == 0 || !same_y) load_vector<V>(y[j] + i, b[j]);
        }
#pragma unroll
        for (int j = 0; j < kDotEdges; ++j) {
#pragma unroll
          for (int v = 0; v < V; ++v) {
            sums[j] += (same_x ? a[0][v] : a[j][v]) * (same_y ? b[0][v] : b[j][v]);
          }
        }
      }
      const auto store = [&](int j, C sum) {
        const int64_t k = begin + j;
        if (k < last) store_number(task.out + edge_id(rows, k) * task.heads + head, sum);
      };
      if (lanes >= kDotEdges) {
        int of;
        const C sum = team_sums(team, sums, &of);
        if (team.lane % (lanes / kDotEdges) == 0) store(of, sum);
      } else {
#pragma unroll
        for (int j = 0; j < kDotEdges; ++j) {
          const C sum = team.sum(sums[j]);
          if (team.lane == 0) store(j, sum);
        }
      }
    }
  }
}

// ---- rows of one operand ----

template <typename T, typename I>
struct CopyTask {
  EdgeRows<I> rows;
  DotOperand<T> x;
  T* out = nullptr;
  EdgeChunks chunks;
};

/// A team for each edge.
template <typename T, typename I, int V>
__global__ void __launch_bounds__(kThreads) copy_kernel(CopyTask<T, I> task, int lanes) {
  const Team team(lanes), warp(kWarp);
  const bool needs_row = task.x.target == Target::kDestination;
  for (int64_t chunk = warp.index(); chunk < task.chunks.count; chunk += warp.count()) {
    ChunkItems<I> items(task.rows, chunk, task.chunks.edges, 1, team, needs_row);
    for (; !items.is_done(); items.advance()) {
      const int64_t k = items.position();
      const T* const from = task.x.at(task.rows, items.row, k);
      T* const to = task.out + edge_id(task.rows, k) * task.x.size;
#pragma unroll 4
      for (int64_t i = team.lane * V; i < task.x.size; i += lanes * V) {
        accumulate_t<T> values[V];
        load_vector<V>(from + i, values);
        store_vector<V>(to + i, values);
      }
    }
  }
}

// ---- any message ----

template <typename T, typename I>
__global__ void __launch_bounds__(kThreads)
    general_sddmm_kernel(EdgeRows<I> rows, T* out, const __grid_constant__ DeviceProgram program,
                         TeamLayout layout, EdgeChunks chunks) {
  const Team team(layout.lanes), warp(kWarp);
  Machine<T> machine(program, team);
  for (int64_t chunk = warp.index(); chunk < chunks.count; chunk += warp.count()) {
    ChunkItems<I> items(rows, chunk, chunks.edges, layout.tiles, team, program.reads_destination);
    for (; !items.is_done(); items.advance()) {
      const int64_t k = items.position(), eid = edge_id(rows, k);
      bool writes;
      const int64_t column = layout.element(items.item(), team.lane, &writes);
      machine.start_edge(rows.indices[k], items.row, eid);
      const accumulate_t<T> value = value_of(machine, program, layout, team, column);
      if (writes) store_number(out + eid * program.out_elements + column, value);
    }
  }
}

// ---- launches ----

template <typename T, typename I>
void launch_dot(const SddmmTask<T, I>& task, CUstream_st* stream) {
  const MessageProgram& program = *task.program;
  const auto operand = [&](int i) {
    const MessageOperand& read = program.operands[i];
    return DotOperand<T>{task.operands[read.index], read.target, read.broadcast.row_size};
  };
  DotTask<T, I> dot{task.rows, operand(0),           operand(1),
                    task.out,  program.out_elements, program.elements / program.out_elements,
                    {}};
  const auto fits = [&](int bytes) {
    return is_aligned(dot.x.data, bytes) && is_aligned(dot.y.data, bytes);
  };
  with_vector<T>(dot.inner, fits, [&](auto v) {
    constexpr int V = v.value;
    // Four vectors of each operand in a lane: more loads under way, and fewer steps to find what
    // they load and to add up lanes.
    const int lanes = std::min(kMostDotLanes, lanes_for(ceil_div(dot.inner, 4 * V)));
    dot.chunks = EdgeChunks::of(dot.rows.num_edges, dot.heads * lanes, kDotEdges);
    launch(dot_kernel<T, I, V>, blocks_for(dot.chunks.count, kThreads / kWarp), kThreads, stream,
           dot, lanes);
  });
}

/// The message is an operand's row as it is.
inline bool is_copy(const MessageProgram& program) {
  return program.code.empty() && program.operands.size() == 1 && !program.reduces &&
         program.pick == 1 && program.out_elements == program.elements &&
         program.operands[0].broadcast.kind == Broadcast::Kind::kFull &&
         program.operands[0].target != Target::kShared;
}

template <typename T, typename I>
void launch_copy(const SddmmTask<T, I>& task, CUstream_st* stream) {
  const MessageOperand& read = task.program->operands[0];
  CopyTask<T, I> copy{
      task.rows, {task.operands[read.index], read.target, task.program->elements}, task.out, {}};
  const auto fits = [&](int bytes) {
    return is_aligned(copy.x.data, bytes) && is_aligned(copy.out, bytes);
  };
  with_vector<T>(copy.x.size, fits, [&](auto v) {
    constexpr int V = v.value;
    const int lanes = lanes_for(ceil_div(copy.x.size, V));
    copy.chunks = EdgeChunks::of(copy.rows.num_edges, lanes);
    launch(copy_kernel<T, I, V>, blocks_for(copy.chunks.count, kThreads / kWarp), kThreads, stream,
           copy, lanes);
  });
}

template <typename T, typename I>
void sddmm_cuda(const SddmmTask<T, I>& task, const DeviceProgram& device, CUstream_st* stream) {
  if (task.rows.num_edges == 0 || task.program->out_elements == 0) return;
  if (is_dot(*task.program)) return launch_dot(task, stream);
  if (is_copy(*task.program)) return launch_copy(task, stream);
  DeviceProgram program = device;
  for (int i = 0; i < program.num_operands; ++i)
    program.operands[i].data = task.operands[task.program->operands[i].index];
  const TeamLayout layout = TeamLayout::of(program);
  const EdgeChunks chunks = EdgeChunks::of(task.rows.num_edges, layout.tiles * layout.lanes);
  launch(general_sddmm_kernel<T, I>, blocks_for(chunks.count, kThreads / kWarp), kThreads, stream,
         task.rows, task.out, program, layout, chunks);
}

}  // namespace smex::kernels
