// Compiled once for each instruction set.
#include "kernels/recurrent/recurrent.h"

#include <algorithm>

#include "kernels/cpu/exp.h"
#include "kernels/cpu/tanh_erf.h"

namespace smex::kernels::SMEX_ISA {
namespace {

// A tile's sums are kMostRows x kMostVectors registers, beside one of the panel and one for each
// row: 31 of AVX-512's 32, 16 of the 16 of others.
constexpr int kMostVectors = 4;
#if defined(__AVX512F__)
constexpr int kMostRows = 6;
#else
constexpr int kMostRows = 3;
#endif

template <typename T>
using Wide = Vector<T, kLanes<T>>;

/// Rows of a product's first matrix, or of a part of its columns, which lie `step` apart.
template <typename T>
struct Rows {
  const T* data;
  int64_t stride;
  int64_t depth;
  int64_t step = 1;
};

/// The sums of a tile, row by row.
template <typename T>
struct Tile {
  alignas(kVectorBytes) T sums[kMostRows * kMostVectors * kLanes<T>];
};

/// tile [R, V vectors] = the parts side by side, times a panel.
template <typename T, int R, int V>
void multiply_panel(const Rows<T>* parts, int count, const T* panel, Tile<T>& tile) {
  constexpr int W = kLanes<T>;
  Wide<T> sums[R][V] = {};
  for (int part = 0; part < count; ++part) {
    const T* const data = parts[part].data;
    const int64_t stride = parts[part].stride, depth = parts[part].depth;
    const int64_t step = parts[part].step;
    for (int64_t k = 0; k < depth; ++k, panel += V * W) {
      Wide<T> factor[R];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) factor[r] = splat<T, W>(data[r * stride + k * step]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        const Wide<T> column = load<T, W>(panel + v * W);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) sums[r][v] += factor[r] * column;
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) store<W>(tile.sums + (r * V + v) * W, sums[r][v]);
  }
}

template <typename T>
using MultiplyPanel = void (*)(const Rows<T>*, int, const T*, Tile<T>&);

template <typename T, int V>
MultiplyPanel<T> for_rows(int64_t rows) {
  MultiplyPanel<T> found = nullptr;
#if defined(__AVX512F__)
  with_constant<1, 2, 3, 4, 5, 6>(
#else
  with_constant<1, 2, 3>(
#endif
      rows, [&](auto r) { found = multiply_panel<T, r.value, V>; });
  return found;
}

/// The product for tiles of so many rows.
template <typename T>
MultiplyPanel<T> multiply_of(int64_t rows, int64_t vectors) {
  MultiplyPanel<T> found = nullptr;
  with_constant<1, 2, 3, 4>(vectors, [&](auto v) { found = for_rows<T, v.value>(rows); });
  return found;
}

/// `data + offset`, of what is there.
template <typename T>
SMEX_INLINE T* after(T* data, int64_t offset) {
  return data ? data + offset : nullptr;
}

/// Calls `f(first, count)` for tiles of nearly as many rows each.
template <typename Function>
void for_tiles(Span rows, const Function& f) {
  const int64_t all = rows.end - rows.begin;
  const int64_t tiles = (all + kMostRows - 1) / kMostRows;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t first = rows.begin + i * all / tiles;
    f(first, rows.begin + (i + 1) * all / tiles - first);
  }
}

/// Vectors of a row's hidden numbers, the last of which may have lanes beyond it: they are read as
/// 0, and not written.
template <typename T>
struct Columns {
  int64_t first;
  int64_t count;

  SMEX_INLINE bool is_whole() const { return count >= kLanes<T>; }
  SMEX_INLINE Wide<T> read(const T* row) const {
    if (is_whole()) return load<T, kLanes<T>>(row + first);
    Wide<T> few = {};
    std::memcpy(&few, row + first, count * sizeof(T));
    return few;
  }
  SMEX_INLINE void write(T* row, Wide<T> value) const {
    if (is_whole()) return store<kLanes<T>>(row + first, value);
    std::memcpy(row + first, &value, count * sizeof(T));
  }
};

template <typename T>
SMEX_INLINE Wide<T> sigmoid(Wide<T> x) {
  return T(1) / (T(1) + exp_of<kLanes<T>>(-x));
}

template <typename T>
SMEX_INLINE Wide<T> tanh_wide(Wide<T> x) {
  return tanh_of<kLanes<T>>(x);
}

/// Where a step's numbers lie: `x`, `gates` and so on point to a row of theirs.
template <typename T>
struct ForwardRow {
  int64_t width;
  const T* x;
  const T* before;
  const T* cells_before;
  const T* bias;
  T* out;
  T* cells;
  T* gates;
};

template <Cell kCell, typename T, typename Sum>
SMEX_INLINE void step_forward(const ForwardRow<T>& row, Columns<T> at, const Sum& sum) {
  const auto x = [&](int64_t g) { return at.read(row.x + g * row.width); };
  const auto keep = [&](int64_t g, Wide<T> value) { at.write(row.gates + g * row.width, value); };
  if constexpr (kCell == Cell::kLstm) {
    const Wide<T> i = sigmoid<T>(sum(0) + x(0)), f = sigmoid<T>(sum(1) + x(1));
    const Wide<T> g = tanh_wide<T>(sum(2) + x(2)), o = sigmoid<T>(sum(3) + x(3));
    const Wide<T> c = f * at.read(row.cells_before) + i * g;
    keep(0, i), keep(1, f), keep(2, g), keep(3, o);
    at.write(row.cells, c);
    at.write(row.out, o * tanh_wide<T>(c));
  } else if constexpr (kCell == Cell::kGru) {
    const auto hidden = [&](int64_t g) {
      return row.bias ? sum(g) + at.read(row.bias + g * row.width) : sum(g);
    };
    const Wide<T> r = sigmoid<T>(hidden(0) + x(0)), z = sigmoid<T>(hidden(1) + x(1));
    const Wide<T> reset = hidden(2), n = tanh_wide<T>(x(2) + r * reset);
    keep(0, r), keep(1, z), keep(2, n), keep(3, reset);
    at.write(row.out, (at.read(row.before) - n) * z + n);
  } else {
    const Wide<T> y = sum(0) + x(0);
    at.write(row.out, kCell == Cell::kTanh ? tanh_wide<T>(y) : y < T(0) ? Wide<T>{} : y);
  }
}

template <typename T>
struct BackwardRow {
  int64_t width;
  const T* grad;
  const T* grad_cells;
  const T* out;
  const T* before;
  const T* cells;
  const T* cells_before;
  const T* gates;
  T* grad_x;
  T* grad_reset;
  T* carry;
};

/// `later` is the gradient of h that the next step's product gives.
template <Cell kCell, typename T>
SMEX_INLINE void step_backward(const BackwardRow<T>& row, Columns<T> at, Wide<T> later) {
  const auto gate = [&](int64_t g) { return at.read(row.gates + g * row.width); };
  const auto put = [&](int64_t g, Wide<T> value) { at.write(row.grad_x + g * row.width, value); };
  Wide<T> dh = at.read(row.grad) + later;
  if constexpr (kCell == Cell::kLstm) {
    const Wide<T> i = gate(0), f = gate(1), g = gate(2), o = gate(3);
    const Wide<T> shown = tanh_wide<T>(at.read(row.cells));
    Wide<T> dc = at.read(row.carry) + dh * o * (T(1) - shown * shown);
    if (row.grad_cells) dc += at.read(row.grad_cells);
    put(0, dc * g * i * (T(1) - i));
    put(1, dc * at.read(row.cells_before) * f * (T(1) - f));
    put(2, dc * i * (T(1) - g * g));
    put(3, dh * shown * o * (T(1) - o));
    at.write(row.carry, dc * f);
  } else if constexpr (kCell == Cell::kGru) {
    const Wide<T> r = gate(0), z = gate(1), n = gate(2), reset = gate(3);
    dh += at.read(row.carry);
    const Wide<T> dn = dh * (T(1) - z) * (T(1) - n * n);
    put(0, dn * reset * r * (T(1) - r));
    put(1, dh * (at.read(row.before) - n) * z * (T(1) - z));
    put(2, dn);
    at.write(row.grad_reset, dn * r);
    at.write(row.carry, dh * z);
  } else {
    const Wide<T> y = at.read(row.out);
    put(0, kCell == Cell::kTanh ? dh * (T(1) - y * y) : y <= T(0) ? Wide<T>{} : dh);
  }
}

/// Lanes of a step of a transposition: of two rows that are kStep apart the blocks of kStep numbers
/// that are not on the diagonal change places.
template <typename T, int kStep, int... kLane>
SMEX_INLINE void exchange_blocks(Wide<T>& upper, Wide<T>& lower,
                                 std::integer_sequence<int, kLane...>) {
  constexpr int W = kLanes<T>;
  constexpr Mask<T, W> kUpper = {(kLane & kStep ? W + kLane - kStep : kLane)...};
  constexpr Mask<T, W> kLower = {(kLane & kStep ? W + kLane : kLane + kStep)...};
  const Wide<T> old = upper;
  upper = __builtin_shuffle(old, lower, kUpper);
  lower = __builtin_shuffle(old, lower, kLower);
}

template <typename T, int kStep = 1>
SMEX_INLINE void transpose_square(Wide<T> (&rows)[kLanes<T>]) {
  constexpr int W = kLanes<T>;
  if constexpr (kStep < W) {
#pragma GCC unroll 16
    for (int i = 0; i < W; ++i) {
      if (i & kStep) continue;
      exchange_blocks<T, kStep>(rows[i], rows[i | kStep], std::make_integer_sequence<int, W>());
    }
    transpose_square<T, kStep * 2>(rows);
  }
}

/// Writes column k of the matrix `from` [rows, columns] to `to + k * to_stride`, as one vector with
/// zeros behind the rows.
template <typename T>
void transpose(const T* from, int64_t from_stride, int64_t rows, int64_t columns, T* to,
               int64_t to_stride) {
  constexpr int W = kLanes<T>;
  int64_t k = 0;
  for (; rows == W && k + W <= columns; k += W) {
    Wide<T> square[W];
#pragma GCC unroll 16
    for (int i = 0; i < W; ++i) square[i] = load<T, W>(from + i * from_stride + k);
    transpose_square<T>(square);
#pragma GCC unroll 16
    for (int i = 0; i < W; ++i) store<W>(to + (k + i) * to_stride, square[i]);
  }
  for (; k < columns; ++k) {
    for (int64_t i = 0; i < W; ++i)
      to[k * to_stride + i] = i < rows ? from[i * from_stride + k] : T(0);
  }
}

/// Panels of so many vectors, nearly as many each.
template <typename T>
Panels panels_of(int64_t width, int64_t gates, int64_t depth) {
  const int64_t vectors = (width + kLanes<T> - 1) / kLanes<T>;
  const int64_t most = kMostVectors / gates;
  const int64_t panels = (vectors + most - 1) / most;
  const int64_t each = (vectors + panels - 1) / panels * gates;
  return {panels, each, panels * each * kLanes<T> * depth};
}

/// Packs the panels of `span` of a matrix [depth, width].
template <typename T>
void pack_rows(const T* from, int64_t stride, int64_t depth, int64_t width, const Panels& form,
               T* packed, Span span) {
  const int64_t columns = form.vectors * kLanes<T>;
  for (int64_t p = span.begin; p < span.end; ++p) {
    T* const panel = packed + p * columns * depth;
    const int64_t count = std::clamp<int64_t>(width - p * columns, 0, columns);
    for (int64_t k = 0; k < depth; ++k) {
      const T* const row = from + k * stride + p * columns;
      std::copy(row, row + count, panel + k * columns);
      std::fill(panel + k * columns + count, panel + (k + 1) * columns, T(0));
    }
  }
}

/// Adds the rows of a matrix, of some of its columns.
template <typename T>
void add_columns(const T* from, int64_t stride, int64_t rows, Span columns, T* sums) {
  for (int64_t k = 0; k < rows; ++k) {
    const T* const row = from + k * stride + columns.begin;
    for_lanes<T>(columns.end - columns.begin, [&](auto w, int64_t i) {
      T* const to = sums + columns.begin + i;
      store<w.value>(to, load<T, w.value>(to) + load<T, w.value>(row + i));
    });
  }
}

/// Rows of a product's depth at a time: of 512 columns they are a quarter of a second-level cache.
constexpr int64_t kGradientRows = 128;

template <Cell kCell, typename T>
void forward_of(const LayerForward<T>& task, Span steps, Span rows, Span panels) {
  constexpr int W = kLanes<T>;
  constexpr int64_t G = gates_of(kCell);
  const int64_t width = task.width;
  const Panels form = forward_panels<T>(kCell, width);
  const int64_t columns = form.vectors / G;
  Tile<T> tile;
  for (int64_t t = steps.begin; t < steps.end; ++t) {
    const T* const before = t ? task.out + (t - 1) * task.rows * width : task.h;
    const T* const cells_before = t ? after(task.cells, (t - 1) * task.rows * width) : task.c;
    for (int64_t p = panels.begin; p < panels.end; ++p) {
      const T* const panel = task.weight + p * (form.numbers / form.panels);
      for_tiles(rows, [&](int64_t first, int64_t count) {
        const Rows<T> part{before + first * width, width, width};
        multiply_of<T>(count, form.vectors)(&part, 1, panel, tile);
        for (int64_t r = 0; r < count; ++r) {
          const int64_t in_step = first + r, at = t * task.rows + in_step;
          const ForwardRow<T> row{width,
                                  task.x + at * G * width,
                                  before + in_step * width,
                                  after(cells_before, in_step * width),
                                  task.bias,
                                  task.out + at * width,
                                  after(task.cells, at * width),
                                  after(task.gates, at * 4 * width)};
          const T* const sums = tile.sums + r * form.vectors * W;
          for (int64_t v = 0; v < columns; ++v) {
            const int64_t column = (p * columns + v) * W;
            if (column >= width) break;
            step_forward<kCell, T>(row, {column, width - column},
                                   [&](int64_t g) { return load<T, W>(sums + (v * G + g) * W); });
          }
        }
      });
    }
  }
}

/// The gradients of the gates of a step, as its product reads them.
template <Cell kCell, typename T>
int parts_of(const LayerBackward<T>& task, int64_t step, int64_t row, Rows<T>* parts) {
  const int64_t width = task.width, at = step * task.rows + row;
  constexpr int64_t G = gates_of(kCell);
  if constexpr (kCell == Cell::kGru) {
    parts[0] = {task.grad_x + at * G * width, G * width, 2 * width};
    parts[1] = {task.grad_reset + at * width, width, width};
    return 2;
  } else {
    parts[0] = {task.grad_x + at * G * width, G * width, G * width};
    return 1;
  }
}

template <Cell kCell, typename T>
void backward_of(const LayerBackward<T>& task, Span steps, Span rows, Span panels) {
  constexpr int W = kLanes<T>;
  constexpr int64_t G = gates_of(kCell);
  const int64_t width = task.width;
  const Panels form = backward_panels<T>(kCell, width);
  Tile<T> tile = {};
  for (int64_t s = steps.begin; s < steps.end; ++s) {
    const int64_t t = task.steps - 1 - s;
    const int64_t step = task.rows * width;
    const T* const before = t > 0 ? after(task.out, (t - 1) * step) : task.h;
    const T* const cells_before = t > 0 ? after(task.cells, (t - 1) * step) : task.c;
    for (int64_t p = panels.begin; p < panels.end; ++p) {
      const T* const panel = task.weight + p * (form.numbers / form.panels);
      for_tiles(rows, [&](int64_t first, int64_t count) {
        Rows<T> parts[2];
        if (s > 0) {
          const int parts_given = parts_of<kCell>(task, t + 1, first, parts);
          multiply_of<T>(count, form.vectors)(parts, parts_given, panel, tile);
        }
        for (int64_t r = 0; r < count; ++r) {
          const int64_t in_step = first + r, at = t * task.rows + in_step;
          const BackwardRow<T> row{width,
                                   task.grad + at * width,
                                   after(task.grad_cells, at * width),
                                   after(task.out, at * width),
                                   after(before, in_step * width),
                                   after(task.cells, at * width),
                                   after(cells_before, in_step * width),
                                   after(task.gates, at * 4 * width),
                                   task.grad_x + at * G * width,
                                   after(task.grad_reset, at * width),
                                   after(task.carry, in_step * width)};
          const T* const sums = tile.sums + r * form.vectors * W;
          for (int64_t v = 0; v < form.vectors; ++v) {
            const int64_t column = (p * form.vectors + v) * W;
            if (column >= width) break;
            const Columns<T> columns{column, width - column};
            const Wide<T> later = s > 0 ? load<T, W>(sums + v * W) : Wide<T>{};
            if (t >= 0) {
              step_backward<kCell, T>(row, columns, later);
            } else {
              const bool is_direct = kCell == Cell::kGru;
              columns.write(task.grad_h + in_step * width,
                            is_direct ? later + columns.read(row.carry) : later);
            }
          }
        }
      });
    }
  }
}

}  // namespace

template <typename T>
Panels forward_panels(Cell cell, int64_t width) {
  return panels_of<T>(width, gates_of(cell), width);
}

template <typename T>
Panels backward_panels(Cell cell, int64_t width) {
  return panels_of<T>(width, 1, gates_of(cell) * width);
}

template <typename T>
void pack_forward(Cell cell, int64_t width, const T* weight, T* packed, Span span) {
  constexpr int64_t W = kLanes<T>;
  const Panels form = forward_panels<T>(cell, width);
  const int64_t gates = gates_of(cell), columns = form.vectors / gates;
  for (int64_t p = span.begin; p < span.end; ++p) {
    for (int64_t v = 0; v < form.vectors; ++v) {
      const int64_t first = (p * columns + v / gates) * W;
      T* const to = packed + p * (form.numbers / form.panels) + v * W;
      transpose(weight + (v % gates * width + first) * width, width,
                std::clamp<int64_t>(width - first, 0, W), width, to, form.vectors * W);
    }
  }
}

template <typename T>
void pack_backward(Cell cell, int64_t width, const T* weight, T* packed, Span span) {
  const Panels form = backward_panels<T>(cell, width);
  pack_rows(weight, width, gates_of(cell) * width, width, form, packed, span);
}

template <typename T>
void run_gradient(const WeightGradient<T>& task, Span columns, T* packed) {
  constexpr int W = kLanes<T>;
  Tile<T> tile;
  if (task.grad_bias) std::fill(task.grad_bias + columns.begin, task.grad_bias + columns.end, T(0));
  for (int64_t begin = 0; begin < task.rows; begin += kGradientRows) {
    const int64_t count = std::min(kGradientRows, task.rows - begin);
    const Panels form = panels_of<T>(task.width, 1, count);
    const T* const grads = task.grads + begin * task.grads_stride;
    pack_rows(task.x + begin * task.x_stride, task.x_stride, count, task.width, form, packed,
              {0, form.panels});
    if (task.grad_bias) add_columns(grads, task.grads_stride, count, columns, task.grad_bias);
    for_tiles(columns, [&](int64_t first, int64_t many) {
      const Rows<T> part{grads + first, 1, count, task.grads_stride};
      for (int64_t p = 0; p < form.panels; ++p) {
        multiply_of<T>(many, form.vectors)(&part, 1, packed + p * (form.numbers / form.panels),
                                           tile);
        const int64_t at = p * form.vectors * W;
        const int64_t few = std::min(task.width - at, form.vectors * W);
        for (int64_t r = 0; r < many; ++r) {
          T* const to = task.grad_weight + (first + r) * task.width + at;
          const T* const sums = tile.sums + r * form.vectors * W;
          for_lanes<T>(few, [&](auto w, int64_t i) {
            const auto sum = load<T, w.value>(sums + i);
            store<w.value>(to + i, begin == 0 ? sum : sum + load<T, w.value>(to + i));
          });
        }
      }
    });
  }
}

template <typename T>
int64_t gradient_numbers(int64_t width) {
  return panels_of<T>(width, 1, kGradientRows).numbers;
}

template <typename T>
void run_forward(const LayerForward<T>& task, Span steps, Span rows, Span panels) {
  switch (task.cell) {
    case Cell::kLstm:
      return forward_of<Cell::kLstm>(task, steps, rows, panels);
    case Cell::kGru:
      return forward_of<Cell::kGru>(task, steps, rows, panels);
    case Cell::kTanh:
      return forward_of<Cell::kTanh>(task, steps, rows, panels);
    case Cell::kRelu:
      return forward_of<Cell::kRelu>(task, steps, rows, panels);
  }
}

template <typename T>
void run_backward(const LayerBackward<T>& task, Span steps, Span rows, Span panels) {
  switch (task.cell) {
    case Cell::kLstm:
      return backward_of<Cell::kLstm>(task, steps, rows, panels);
    case Cell::kGru:
      return backward_of<Cell::kGru>(task, steps, rows, panels);
    case Cell::kTanh:
      return backward_of<Cell::kTanh>(task, steps, rows, panels);
    case Cell::kRelu:
      return backward_of<Cell::kRelu>(task, steps, rows, panels);
  }
}

#define SMEX_INSTANTIATE(T)                                               \
  template Panels forward_panels<T>(Cell, int64_t);                       \
  template Panels backward_panels<T>(Cell, int64_t);                      \
  template void pack_forward<T>(Cell, int64_t, const T*, T*, Span);       \
  template void pack_backward<T>(Cell, int64_t, const T*, T*, Span);      \
  template int64_t gradient_numbers<T>(int64_t);                          \
  template void run_gradient<T>(const WeightGradient<T>&, Span, T*);      \
  template void run_forward<T>(const LayerForward<T>&, Span, Span, Span); \
  template void run_backward<T>(const LayerBackward<T>&, Span, Span, Span);
SMEX_INSTANTIATE(float)
SMEX_INSTANTIATE(double)
#undef SMEX_INSTANTIATE

}  // namespace smex::kernels::SMEX_ISA
