// Kernels of smex::spmm and smex::spmm_extremum.
#pragma once

#include <type_traits>

#include "kernels/message/cuda/machine.cuh"
#include "kernels/spmm/cuda/reduce.cuh"
#include "kernels/spmm/cuda/spmm.h"

namespace smex::kernels {

// ---- messages that have kernels of their own ----

/// Which row of an operand belongs to position k: a node at the other end, or an edge.
template <typename T, typename I>
struct GatheredRows {
  const T* data = nullptr;
  const I* ids = nullptr;  ///< null: the position itself
  int64_t size = 0;

  SMEX_DEVICE const T* at(int64_t k) const { return data + (ids ? int64_t{ids[k]} : k) * size; }
};

// Each of them: `move_to(column)` once, then for each row `move_to_row(row)` and `load(k, values)`
// for positions k.

template <typename T, typename I, int V>
struct CopyMessage {
  GatheredRows<T, I> x;

  SMEX_DEVICE void move_to(int64_t column) { x.data += column; }
  SMEX_DEVICE void move_to_row(int64_t) {}
  SMEX_DEVICE void load(int64_t k, accumulate_t<T> (&to)[V]) const { load_vector<V>(x.at(k), to); }
};

/// Times one number for each `inner` elements, of which V is a divisor.
template <typename T, typename I, int V>
struct ScaledMessage {
  GatheredRows<T, I> x, weight;
  int64_t inner = 1;

  SMEX_DEVICE void move_to(int64_t column) {
    x.data += column;
    weight.data += column / inner;
  }
  SMEX_DEVICE void move_to_row(int64_t) {}
  SMEX_DEVICE void load(int64_t k, accumulate_t<T> (&to)[V]) const {
    const accumulate_t<T> w = widen(*weight.at(k));
    load_vector<V>(x.at(k), to);
#pragma unroll
    for (int i = 0; i < V; ++i) to[i] *= w;
  }
};

/// Times as many numbers.
template <typename T, typename I, int V>
struct ProductMessage {
  GatheredRows<T, I> x, y;

  SMEX_DEVICE void move_to(int64_t column) {
    x.data += column;
    y.data += column;
  }
  SMEX_DEVICE void move_to_row(int64_t) {}
  SMEX_DEVICE void load(int64_t k, accumulate_t<T> (&to)[V]) const {
    accumulate_t<T> other[V];
    load_vector<V>(x.at(k), to);
    load_vector<V>(y.at(k), other);
#pragma unroll
    for (int i = 0; i < V; ++i) to[i] *= other[i];
  }
};

/// Times a few numbers of the row's source, destination and edge.
template <typename T, typename I, int V>
struct WeightedMessage {
  using C = accumulate_t<T>;
  static constexpr int kMost = 3;  // of each kind

  GatheredRows<T, I> x;
  GatheredRows<T, I> weights[kMost];
  const T* row_weights[kMost] = {};
  int num_weights = 0, num_row_weights = 0;
  C of_row = 1;

  SMEX_DEVICE void move_to(int64_t column) { x.data += column; }
  SMEX_DEVICE void move_to_row(int64_t row) {
    of_row = 1;
#pragma unroll
    for (int n = 0; n < kMost; ++n)
      if (n < num_row_weights) of_row *= widen(row_weights[n][row]);
  }
  SMEX_DEVICE void load(int64_t k, C (&to)[V]) const {
    C w = of_row;
#pragma unroll
    for (int n = 0; n < kMost; ++n)
      if (n < num_weights) w *= widen(*weights[n].at(k));
    load_vector<V>(x.at(k), to);
#pragma unroll
    for (int i = 0; i < V; ++i) to[i] *= w;
  }
};

/// A team for each piece and tile of columns, each lane with V columns. Tile after tile, so that
/// the columns that are gathered at one time stay in the second-level cache.
template <typename T, typename I, int V, typename State, typename Message>
__global__ void __launch_bounds__(kThreads)
    spmm_kernel(SpmmRows<T, I> task, Message message, int lanes, int64_t tiles) {
  constexpr int kAhead = 4;  // rows whose loads are under way at the same time
  const Team team(lanes);
  for (int64_t unit = team.index(); unit < task.num_pieces * tiles; unit += team.count()) {
    const int64_t tile = unit / task.num_pieces, piece = unit - tile * task.num_pieces;
    const int64_t column = (tile * lanes + team.lane) * V;
    if (column >= task.n) continue;
    Message own = message;
    own.move_to(column);
    PieceWalk<I> walk(task.rows, piece, task.num_pieces);
    while (walk.next()) {
      own.move_to_row(walk.row);
      State state(task);
      int64_t k = walk.first;
      for (; k + kAhead <= walk.last; k += kAhead) {
        accumulate_t<T> values[kAhead][V];
#pragma unroll
        for (int j = 0; j < kAhead; ++j) own.load(k + j, values[j]);
#pragma unroll
        for (int j = 0; j < kAhead; ++j) state.add(values[j], k + j);
      }
      for (; k < walk.last; ++k) {
        accumulate_t<T> value[V];
        own.load(k, value);
        state.add(value, k);
      }
      put(task, piece, walk, column, state);
    }
  }
}

// ---- any message ----

template <typename T, typename I, typename State>
__global__ void __launch_bounds__(kThreads)
    general_spmm_kernel(SpmmRows<T, I> task, const __grid_constant__ DeviceProgram program,
                        TeamLayout layout) {
  const Team team(layout.lanes);
  Machine<T> machine(program, team);
  for (int64_t unit = team.index(); unit < task.num_pieces * layout.tiles; unit += team.count()) {
    const int64_t tile = unit / task.num_pieces, piece = unit - tile * task.num_pieces;
    bool writes;
    const int64_t column = layout.element(tile, team.lane, &writes);
    PieceWalk<I> walk(task.rows, piece, task.num_pieces);
    while (walk.next()) {
      State state(task);
      for (int64_t k = walk.first; k < walk.last; ++k) {
        machine.start_edge(task.rows.indices[k], walk.row,
                           task.rows.eids ? int64_t{task.rows.eids[k]} : k);
        const accumulate_t<T> value[1] = {value_of(machine, program, layout, team, column)};
        state.add(value, k);
      }
      if (writes) put(task, piece, walk, column, state);
    }
  }
}

// ---- launches ----

template <typename T, typename I>
class SpmmLauncher {
 public:
  SpmmLauncher(const SpmmTask<T, I>& task, CUstream_st* stream)
      : task_(task), rows_(task), program_(*task.program), stream_(stream) {}

  void run(const DeviceProgram& device) const {
    if (!run_special()) run_general(device);
    if (sums()) {
      finish_runs(rows_.rows, rows_.num_pieces, rows_.n, SpmmFold<T, I, SumState<T, I, 1>>{rows_},
                  stream_);
    } else {
      finish_runs(rows_.rows, rows_.num_pieces, rows_.n,
                  SpmmFold<T, I, ExtremumState<T, I, 1>>{rows_}, stream_);
    }
  }

 private:
  bool sums() const { return task_.reduce == Reduce::kSum || task_.reduce == Reduce::kMean; }

  GatheredRows<T, I> gathered(const MessageOperand& read) const {
    return {task_.operands[read.index],
            read.target == Target::kSource ? task_.rows.indices : task_.rows.eids,
            read.broadcast.row_size};
  }

  template <int V, typename State, typename Message>
  void run_kernel(const Message& message) const {
    const int64_t vectors = ceil_div(rows_.n, V);
    const int lanes = lanes_for(vectors);
    const int64_t tiles = ceil_div(vectors, lanes);
    launch(spmm_kernel<T, I, V, State, Message>,
           blocks_for(rows_.num_pieces * tiles, kThreads / lanes), kThreads, stream_, rows_,
           message, lanes, tiles);
  }

  /// Calls `f` with the width of vectors that divides rows and `inner` and that data allows.
  template <typename Function>
  void with_width(int64_t inner, std::initializer_list<const T*> data, const Function& f) const {
    with_vector<T>(
        inner,
        [&](int bytes) {
          bool fits = is_aligned(task_.out, bytes) && is_aligned(task_.shared, 16);
          for (const T* x : data) fits = fits && is_aligned(x, bytes);
          return fits;
        },
        f);
  }

  void run_copy(const GatheredRows<T, I>& x) const {
    with_width(rows_.n, {x.data}, [&](auto v) {
      constexpr int V = v.value;
      const CopyMessage<T, I, V> message{x};
      if (sums()) {
        run_kernel<V, SumState<T, I, V>>(message);
      } else {
        run_kernel<V, ExtremumState<T, I, V>>(message);
      }
    });
  }

  void run_scaled(const GatheredRows<T, I>& x, const GatheredRows<T, I>& weight,
                  int64_t inner) const {
    with_width(inner, {x.data}, [&](auto v) {
      constexpr int V = v.value;
      run_kernel<V, SumState<T, I, V>>(ScaledMessage<T, I, V>{x, weight, inner});
    });
  }

  void run_product(const GatheredRows<T, I>& x, const GatheredRows<T, I>& y) const {
    with_width(rows_.n, {x.data, y.data}, [&](auto v) {
      constexpr int V = v.value;
      run_kernel<V, SumState<T, I, V>>(ProductMessage<T, I, V>{x, y});
    });
  }

  /// A row of a source or an edge times numbers of sources, destinations and edges.
  bool run_weighted() const {
    if (!sums() || !is_product(program_) || program_.reduces || program_.pick != 1) return false;
    WeightedMessage<T, I, 1> one;
    const MessageOperand* wide = nullptr;
    for (const MessageOperand& read : program_.operands) {
      const bool is_of_row = read.target == Target::kDestination;
      if (read.target == Target::kShared) return false;
      if (read.broadcast.kind == Broadcast::Kind::kScalar) {
        int& count = is_of_row ? one.num_row_weights : one.num_weights;
        if (count == one.kMost) return false;
        if (is_of_row) {
          one.row_weights[count] = task_.operands[read.index];
        } else {
          one.weights[count] = gathered(read);
        }
        ++count;
      } else if (read.broadcast.kind == Broadcast::Kind::kFull && !wide && !is_of_row) {
        wide = &read;
      } else {
        return false;
      }
    }
    if (!wide || program_.elements != program_.out_elements) return false;
    const GatheredRows<T, I> x = gathered(*wide);
    with_width(rows_.n, {x.data}, [&](auto v) {
      constexpr int V = v.value;
      WeightedMessage<T, I, V> message{x};
      for (int n = 0; n < one.kMost; ++n) {
        message.weights[n] = one.weights[n];
        message.row_weights[n] = one.row_weights[n];
      }
      message.num_weights = one.num_weights;
      message.num_row_weights = one.num_row_weights;
      run_kernel<V, SumState<T, I, V>>(message);
    });
    return true;
  }

  /// True when a kernel of its own has been launched.
  bool run_special() const { return run_plain() || run_weighted(); }

  bool run_plain() const {
    const auto& operands = program_.operands;
    for (const MessageOperand& read : operands)
      if (read.target == Target::kDestination || read.target == Target::kShared) return false;
    if (program_.code.empty() && operands.size() == 1) {
      run_copy(gathered(operands[0]));
      return true;
    }
    if (!sums() || program_.code.size() != 1 || operands.size() != 2) return false;
    if (program_.code[0].op != MessageOp::kMul) return false;
    const bool swap = operands[0].broadcast.kind != Broadcast::Kind::kFull;
    const MessageOperand &wide = operands[swap ? 1 : 0], &other = operands[swap ? 0 : 1];
    if (wide.broadcast.kind != Broadcast::Kind::kFull) return false;
    const auto x = gathered(wide), y = gathered(other);
    switch (other.broadcast.kind) {
      case Broadcast::Kind::kFull:
        run_product(x, y);
        return true;
      case Broadcast::Kind::kScalar:
        run_scaled(x, y, rows_.n);
        return true;
      case Broadcast::Kind::kHead:
        run_scaled(x, y, other.broadcast.inner);
        return true;
      default:
        return false;
    }
  }

  void run_general(DeviceProgram device) const {
    for (int i = 0; i < device.num_operands; ++i)
      device.operands[i].data = task_.operands[program_.operands[i].index];
    const TeamLayout layout = TeamLayout::of(device);
    const auto run = [&](auto kernel) {
      launch(kernel, blocks_for(rows_.num_pieces * layout.tiles, kThreads / layout.lanes), kThreads,
             stream_, rows_, device, layout);
    };
    if (sums()) {
      run(&general_spmm_kernel<T, I, SumState<T, I, 1>>);
    } else {
      run(&general_spmm_kernel<T, I, ExtremumState<T, I, 1>>);
    }
  }

  const SpmmTask<T, I>& task_;
  const SpmmRows<T, I> rows_;
  const MessageProgram& program_;
  CUstream_st* const stream_;
};

template <typename T, typename I>
void spmm_cuda(const SpmmTask<T, I>& task, const DeviceProgram& device, CUstream_st* stream) {
  if (task.rows.num_rows == 0 || task.program->out_elements == 0) return;
  SpmmLauncher<T, I>(task, stream).run(device);
}

}  // namespace smex::kernels
