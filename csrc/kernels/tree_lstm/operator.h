// What the files that register these operators share.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <tuple>
#include <vector>

#include "kernels/message/dispatch.h"
#include "kernels/tree_lstm/tree_lstm.h"

namespace smex::kernels {

using Two = std::tuple<at::Tensor, at::Tensor>;

constexpr const char* kTreeLstm = "smex::tree_lstm";
constexpr const char* kTreeLstmBackward = "smex::tree_lstm_backward";

/// Checks the gates with the cells and the places of their blocks.
void check_cells(const char* op, const at::Tensor& gates, at::TensorList cells,
                 at::IntArrayRef places);

/// `x` is [rows of the gates, width], of their type and device.
void check_cell_rows(const char* op, const char* name, const at::Tensor& x, const at::Tensor& gates,
                     const c10::SymInt& width);

/// h and c, not initialised; checks the arguments.
Two empty_cell(const at::Tensor& gates, at::TensorList cells, at::IntArrayRef places);

// By ATen's operators, for any device and type.
void tree_lstm_into(const at::Tensor& gates, at::TensorList cells, at::IntArrayRef places,
                    at::Tensor& h, at::Tensor& c);
at::Tensor tree_lstm_backward_into(const at::Tensor& grad_h, const at::Tensor& grad_c,
                                   const at::Tensor& gates, at::TensorList cells,
                                   const at::Tensor& c, at::IntArrayRef places,
                                   at::Tensor& grad_gates);

/// A matrix whose elements of a row follow one another.
inline at::Tensor in_rows(const at::Tensor& x) { return x.stride(1) == 1 ? x : x.contiguous(); }

/// The cells with pointers to their rows.
template <typename T>
struct Cells {
  std::vector<at::Tensor> kept;
  std::vector<const T*> data;
  std::vector<int64_t> strides;

  explicit Cells(at::TensorList cells) {
    for (const at::Tensor& cell : cells) {
      kept.push_back(in_rows(cell));
      data.push_back(data_of<T>(kept.back()));
      strides.push_back(kept.back().stride(0));
    }
  }
};

/// The operators by a kernel: `Kernel::takes(type, children)` says which it takes, and
/// `Kernel()(task, rows, like)` runs a CellForward or a CellBackward where `like` is.
template <typename Kernel>
struct TreeLstmBy {
  static bool takes(const at::Tensor& gates, at::TensorList cells) {
    return Kernel::takes(gates.scalar_type(), static_cast<int64_t>(cells.size()));
  }

  static void forward_into(const at::Tensor& gates, at::TensorList cells, at::IntArrayRef places,
                           at::Tensor& h, at::Tensor& c) {
    if (!takes(gates, cells) || h.stride(1) != 1 || c.stride(1) != 1)
      return tree_lstm_into(gates, cells, places, h, c);
    check_cells(kTreeLstm, gates, cells, places);
    const int64_t width = gates.size(1) / static_cast<int64_t>(places.size());
    check_cell_rows(kTreeLstm, "h", h, gates, width);
    check_cell_rows(kTreeLstm, "c", c, gates, width);
    const at::Tensor dense = in_rows(gates);
    dispatch_features(kTreeLstm, gates.scalar_type(), [&](auto feature) {
      using T = typename decltype(feature)::type;
      const Cells<T> of(cells);
      CellForward<T> task;
      task.width = width;
      task.children = static_cast<int64_t>(cells.size());
      task.places = places.data();
      task.gates = data_of<T>(dense);
      task.gates_stride = dense.stride(0);
      task.cells = of.data.data();
      task.cell_strides = of.strides.data();
      task.h = mutable_data_of<T>(h);
      task.h_stride = h.stride(0);
      task.c = mutable_data_of<T>(c);
      task.c_stride = c.stride(0);
      Kernel()(task, gates.size(0), gates);
    });
  }

  static Two forward(const at::Tensor& gates, at::TensorList cells, at::IntArrayRef places) {
    auto [h, c] = empty_cell(gates, cells, places);
    forward_into(gates, cells, places, h, c);
    return {h, c};
  }

  static at::Tensor backward_into(const at::Tensor& grad_h, const at::Tensor& grad_c,
                                  const at::Tensor& gates, at::TensorList cells,
                                  const at::Tensor& c, at::IntArrayRef places,
                                  at::Tensor& grad_gates) {
    if (!takes(gates, cells) || grad_gates.stride(1) != 1)
      return tree_lstm_backward_into(grad_h, grad_c, gates, cells, c, places, grad_gates);
    constexpr const char* kOp = kTreeLstmBackward;
    check_cells(kOp, gates, cells, places);
    const int64_t width = gates.size(1) / static_cast<int64_t>(places.size());
    check_cell_rows(kOp, "grad_h", grad_h, gates, width);
    check_cell_rows(kOp, "grad_c", grad_c, gates, width);
    check_cell_rows(kOp, "c", c, gates, width);
    check_cell_rows(kOp, "grad_gates", grad_gates, gates, gates.sym_size(1));
    const auto children = static_cast<int64_t>(cells.size());
    at::Tensor grad_cells = at::empty({gates.size(0), children, width}, gates.options());
    const at::Tensor dense = in_rows(gates), of_h = in_rows(grad_h), of_c = in_rows(grad_c);
    const at::Tensor own = in_rows(c);
    dispatch_features(kOp, gates.scalar_type(), [&](auto feature) {
      using T = typename decltype(feature)::type;
      const Cells<T> of(cells);
      CellBackward<T> task;
      task.width = width;
      task.children = children;
      task.places = places.data();
      task.grad_h = data_of<T>(of_h);
      task.grad_h_stride = of_h.stride(0);
      task.grad_c = data_of<T>(of_c);
      task.grad_c_stride = of_c.stride(0);
      task.gates = data_of<T>(dense);
      task.gates_stride = dense.stride(0);
      task.cells = of.data.data();
      task.cell_strides = of.strides.data();
      task.c = data_of<T>(own);
      task.c_stride = own.stride(0);
      task.grad_gates = mutable_data_of<T>(grad_gates);
      task.grad_gates_stride = grad_gates.stride(0);
      task.grad_cells = mutable_data_of<T>(grad_cells);
      Kernel()(task, gates.size(0), gates);
    });
    return grad_cells;
  }

  static Two backward(const at::Tensor& grad_h, const at::Tensor& grad_c, const at::Tensor& gates,
                      at::TensorList cells, const at::Tensor& c, at::IntArrayRef places) {
    at::Tensor grad_gates = at::empty(gates.sizes(), gates.options());
    at::Tensor grad_cells = backward_into(grad_h, grad_c, gates, cells, c, places, grad_gates);
    return {grad_gates, grad_cells};
  }

  static void register_all(torch::Library& m) {
    m.impl("tree_lstm", forward);
    m.impl("tree_lstm_backward", backward);
    m.impl("tree_lstm_into", forward_into);
    m.impl("tree_lstm_backward_into", backward_into);
  }
};

}  // namespace smex::kernels
