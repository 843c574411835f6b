// The element-wise part of LSTM cells with any number of children (Tai et al. 2015, N-ary
// Tree-LSTM; one child is the LSTM of a chain, none a leaf):
//
//   c = sigmoid(i) tanh(u) + sum over children j of sigmoid(f_j) c_j,    h = sigmoid(o) tanh(c)
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"

namespace smex::kernels {

/// Rows of `width` elements. A row of `gates` holds (3 + children) blocks of so many.
template <typename T>
struct CellForward {
  int64_t width = 0;
  int64_t children = 0;
  const int64_t* places = nullptr;  ///< [3 + children], the blocks of i, o, u, f_1, ...
  const T* gates = nullptr;
  int64_t gates_stride = 0;
  const T* const* cells = nullptr;  ///< [children], each with rows of `width`
  const int64_t* cell_strides = nullptr;
  T* h = nullptr;
  int64_t h_stride = 0;
  T* c = nullptr;
  int64_t c_stride = 0;
};

/// The gradients of the gates, blocks placed as these, and of the children's cells
/// `[rows, children, width]`. The sigmoids and tanh are computed again from the gates.
template <typename T>
struct CellBackward {
  int64_t width = 0;
  int64_t children = 0;
  const int64_t* places = nullptr;
  const T* grad_h = nullptr;
  int64_t grad_h_stride = 0;
  const T* grad_c = nullptr;
  int64_t grad_c_stride = 0;
  const T* gates = nullptr;
  int64_t gates_stride = 0;
  const T* const* cells = nullptr;
  const int64_t* cell_strides = nullptr;
  const T* c = nullptr;
  int64_t c_stride = 0;
  T* grad_gates = nullptr;
  int64_t grad_gates_stride = 0;
  T* grad_cells = nullptr;
};

// clang-format off
SMEX_FOR_EACH_ISA(
    /// The rows `begin` to `end`.
    template <typename T>
    void cell_forward(const CellForward<T>& task, int64_t begin, int64_t end);
    template <typename T>
    void cell_backward(const CellBackward<T>& task, int64_t begin, int64_t end);
)
// clang-format on

}  // namespace smex::kernels
