// smex::tree_lstm: the element-wise part of LSTM cells as one operator (tree_lstm.h).
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <algorithm>

#include "kernels/tree_lstm/operator.h"

namespace smex::kernels {
namespace {

c10::SymInt width_of(const at::Tensor& gates, size_t children) {
  return gates.sym_size(1) / static_cast<int64_t>(3 + children);
}

}  // namespace

void check_cell_rows(const char* op, const char* name, const at::Tensor& x, const at::Tensor& gates,
                     const c10::SymInt& width) {
  TORCH_CHECK_VALUE(x.dim() == 2 && x.sym_size(0) == gates.sym_size(0) && x.sym_size(1) == width,
                    op, ": expected ", name, " [", gates.sym_size(0), ", ", width, "], found ",
                    x.sym_sizes());
  TORCH_CHECK_TYPE(x.scalar_type() == gates.scalar_type(), op, ": expected ", name, " of type ",
                   gates.scalar_type(), " as the gates, found ", x.scalar_type());
  TORCH_CHECK_VALUE(x.device() == gates.device(), op, ": expected ", name, " on ", gates.device(),
                    " as the gates, found ", x.device());
}

void check_cells(const char* op, const at::Tensor& gates, at::TensorList cells,
                 at::IntArrayRef places) {
  TORCH_CHECK_TYPE(gates.is_floating_point(), op,
                   ": expected gates of a floating point type, found ", gates.scalar_type());
  const auto blocks = static_cast<int64_t>(3 + cells.size());
  TORCH_CHECK_VALUE(gates.dim() == 2 && gates.sym_size(1) % blocks == 0, op,
                    ": expected gates [rows, ", blocks, " * width] for ", cells.size(),
                    " cells, found ", gates.sym_sizes());
  std::vector<int64_t> sorted(places.begin(), places.end());
  std::sort(sorted.begin(), sorted.end());
  bool is_order = static_cast<int64_t>(sorted.size()) == blocks;
  for (size_t i = 0; i < sorted.size(); ++i) is_order &= sorted[i] == static_cast<int64_t>(i);
  TORCH_CHECK_VALUE(is_order, op, ": expected the places of ", blocks,
                    " gates, each number below it once, found ", places);
  for (const at::Tensor& cell : cells)
    check_cell_rows(op, "cells", cell, gates, width_of(gates, cells.size()));
}

Two empty_cell(const at::Tensor& gates, at::TensorList cells, at::IntArrayRef places) {
  check_cells(kTreeLstm, gates, cells, places);
  const at::SymInt width = width_of(gates, cells.size());
  const at::Tensor h = at::empty_symint({gates.sym_size(0), width}, gates.options());
  return {h, at::empty_like(h)};
}

namespace {

Two backward_meta(const at::Tensor& grad_h, const at::Tensor& grad_c, const at::Tensor& gates,
                  at::TensorList cells, const at::Tensor& c, at::IntArrayRef places) {
  check_cells(kTreeLstmBackward, gates, cells, places);
  const at::SymInt width = width_of(gates, cells.size());
  check_cell_rows(kTreeLstmBackward, "grad_h", grad_h, gates, width);
  check_cell_rows(kTreeLstmBackward, "grad_c", grad_c, gates, width);
  check_cell_rows(kTreeLstmBackward, "c", c, gates, width);
  const auto children = static_cast<int64_t>(cells.size());
  return {at::empty_symint(gates.sym_sizes(), gates.options()),
          at::empty_symint({gates.sym_size(0), children, width}, gates.options())};
}

void forward_into_meta(const at::Tensor& gates, at::TensorList cells, at::IntArrayRef places,
                       at::Tensor&, at::Tensor&) {
  check_cells(kTreeLstm, gates, cells, places);
}

at::Tensor backward_into_meta(const at::Tensor& grad_h, const at::Tensor& grad_c,
                              const at::Tensor& gates, at::TensorList cells, const at::Tensor& c,
                              at::IntArrayRef places, at::Tensor&) {
  return std::get<1>(backward_meta(grad_h, grad_c, gates, cells, c, places));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def("tree_lstm(Tensor gates, Tensor[] cells, int[] places) -> (Tensor h, Tensor c)");
  m.def(
      "tree_lstm_backward(Tensor grad_h, Tensor grad_c, Tensor gates, Tensor[] cells, Tensor c, "
      "int[] places) -> (Tensor grad_gates, Tensor grad_cells)");
  m.def(
      "tree_lstm_into(Tensor gates, Tensor[] cells, int[] places, Tensor(a!) h, Tensor(b!) c) -> "
      "()");
  m.def(
      "tree_lstm_backward_into(Tensor grad_h, Tensor grad_c, Tensor gates, Tensor[] cells, "
      "Tensor c, int[] places, Tensor(a!) grad_gates) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("tree_lstm", empty_cell);
  m.impl("tree_lstm_backward", backward_meta);
  m.impl("tree_lstm_into", forward_into_meta);
  m.impl("tree_lstm_backward_into", backward_into_meta);
}

}  // namespace smex::kernels
