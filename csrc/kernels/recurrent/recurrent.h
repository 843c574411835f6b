// The steps of a recurrent layer (operator.h) on the CPU.
//
// Each step is a product of few rows and one matrix, which is the same in all steps: it is packed
// once, into panels of a few vectors' columns that a tile's sums stay in registers for, and what a
// cell makes of its gates follows while the tile is in the first-level cache. Rows do not depend on
// each other: a thread may take some of them through all steps without waiting for another.
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"

namespace smex::kernels {

/// What a step makes of its gates.
enum class Cell : uint8_t { kLstm, kGru, kTanh, kRelu };

constexpr int64_t gates_of(Cell cell) {
  return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1;
}

struct Span {
  int64_t begin = 0, end = 0;
};

/// T steps of N samples, of H hidden numbers and G gates; see operator.h. `weight` is packed.
template <typename T>
struct LayerForward {
  Cell cell = Cell::kLstm;
  int64_t steps = 0, rows = 0, width = 0;
  const T* x = nullptr;       ///< [T, N, G H]
  const T* h = nullptr;       ///< [N, H]
  const T* c = nullptr;       ///< [N, H], of an LSTM
  const T* bias = nullptr;    ///< [3 H], of a GRU, or none
  const T* weight = nullptr;  ///< by `pack_forward`
  T* out = nullptr;           ///< [T, N, H]
  T* cells = nullptr;         ///< [T, N, H], of an LSTM
  T* gates = nullptr;         ///< [T, N, 4 H], of an LSTM or a GRU
};

template <typename T>
struct LayerBackward {
  Cell cell = Cell::kLstm;
  int64_t steps = 0, rows = 0, width = 0;
  const T* grad = nullptr;        ///< [T, N, H]
  const T* grad_cells = nullptr;  ///< [T, N, H], of an LSTM, or none
  const T* out = nullptr;         ///< [T, N, H], not of an LSTM
  const T* h = nullptr;           ///< [N, H], of a GRU
  const T* cells = nullptr;       ///< [T, N, H], of an LSTM
  const T* c = nullptr;           ///< [N, H], of an LSTM
  const T* gates = nullptr;       ///< [T, N, 4 H], of an LSTM or a GRU
  const T* weight = nullptr;      ///< by `pack_backward`
  T* grad_x = nullptr;            ///< [T, N, G H]
  T* grad_reset = nullptr;        ///< [T, N, H], of a GRU: of what the reset gate multiplies
  T* grad_h = nullptr;            ///< [N, H]
  /// [N, H], zeros at first: what a step gives the one before past its product, of the cells of an
  /// LSTM and of the hidden numbers of a GRU. The former ends as the gradient of `c`.
  T* carry = nullptr;
};

/// The gradients of a weight [G, K] and a bias [G] that made [M, G] of x [M, K]: grads^T x, and the
/// sum of the rows of grads.
template <typename T>
struct WeightGradient {
  int64_t rows = 0, width = 0;  ///< M and K
  const T* grads = nullptr;
  int64_t grads_stride = 0;
  const T* x = nullptr;
  int64_t x_stride = 0;
  T* grad_weight = nullptr;
  T* grad_bias = nullptr;  ///< or none
};

/// How a packed matrix lies: `panels` of `vectors` vectors' columns.
struct Panels {
  int64_t panels = 0;
  int64_t vectors = 0;
  int64_t numbers = 0;  ///< that it takes
};

// clang-format off
SMEX_FOR_EACH_ISA(
    template <typename T>
    Panels forward_panels(Cell cell, int64_t width);
    template <typename T>
    Panels backward_panels(Cell cell, int64_t width);
    /// Packs the panels of `span` of weight [G H, H].
    template <typename T>
    void pack_forward(Cell cell, int64_t width, const T* weight, T* packed, Span span);
    template <typename T>
    void pack_backward(Cell cell, int64_t width, const T* weight, T* packed, Span span);
    /// The steps, in order, for some rows and the columns of some panels.
    template <typename T>
    void run_forward(const LayerForward<T>& task, Span steps, Span rows, Span panels);
    /// The same for step T - 1 - s, s in `steps`; s = T makes the gradient of h.
    template <typename T>
    void run_backward(const LayerBackward<T>& task, Span steps, Span rows, Span panels);
    /// The numbers of memory that `run_gradient` packs into.
    template <typename T>
    int64_t gradient_numbers(int64_t width);
    /// For some columns of grads.
    template <typename T>
    void run_gradient(const WeightGradient<T>& task, Span columns, T* packed);
)
// clang-format on

}  // namespace smex::kernels
