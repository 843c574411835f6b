#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <torch/library.h>

#include "kernels/tree_lstm/operator.h"

namespace smex::kernels {
namespace {

std::vector<at::Tensor> blocks_of(const at::Tensor& gates, at::IntArrayRef places) {
  const std::vector<at::Tensor> chunks = gates.chunk(static_cast<int64_t>(places.size()), 1);
  std::vector<at::Tensor> blocks;
  for (const int64_t place : places) blocks.push_back(chunks[place]);
  return blocks;
}

Two forward(const at::Tensor& gates, at::TensorList cells, at::IntArrayRef places) {
  check_cells(kTreeLstm, gates, cells, places);
  const auto gate = blocks_of(gates, places);
  at::Tensor c = gate[0].sigmoid() * gate[2].tanh();
  for (size_t j = 0; j < cells.size(); ++j) c = c + gate[3 + j].sigmoid() * cells[j];
  return {gate[1].sigmoid() * c.tanh(), c};
}

Two backward(const at::Tensor& grad_h, const at::Tensor& grad_c, const at::Tensor& gates,
             at::TensorList cells, const at::Tensor& c, at::IntArrayRef places) {
  check_cells(kTreeLstmBackward, gates, cells, places);
  const auto gate = blocks_of(gates, places);
  const at::Tensor input = gate[0].sigmoid(), output = gate[1].sigmoid(), update = gate[2].tanh();
  const at::Tensor shown = c.tanh();
  const at::Tensor grad = grad_c + grad_h * output * (1 - shown * shown);
  std::vector<at::Tensor> grads(places.size()), of_cells;
  grads[places[0]] = grad * update * input * (1 - input);
  grads[places[1]] = grad_h * shown * output * (1 - output);
  grads[places[2]] = grad * input * (1 - update * update);
  for (size_t j = 0; j < cells.size(); ++j) {
    const at::Tensor forget = gate[3 + j].sigmoid();
    grads[places[3 + j]] = grad * cells[j] * forget * (1 - forget);
    of_cells.push_back(grad * forget);
  }
  const at::Tensor grad_cells =
      cells.empty() ? at::empty_symint({gates.sym_size(0), 0, c.sym_size(1)}, gates.options())
                    : at::stack(of_cells, 1);
  return {at::cat(grads, 1), grad_cells};
}

}  // namespace

void tree_lstm_into(const at::Tensor& gates, at::TensorList cells, at::IntArrayRef places,
                    at::Tensor& h, at::Tensor& c) {
  const auto [new_h, new_c] = forward(gates, cells, places);
  h.copy_(new_h);
  c.copy_(new_c);
}

at::Tensor tree_lstm_backward_into(const at::Tensor& grad_h, const at::Tensor& grad_c,
                                   const at::Tensor& gates, at::TensorList cells,
                                   const at::Tensor& c, at::IntArrayRef places,
                                   at::Tensor& grad_gates) {
  const auto [new_gates, grad_cells] = backward(grad_h, grad_c, gates, cells, c, places);
  grad_gates.copy_(new_gates);
  return grad_cells;
}

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) {
  m.impl("tree_lstm", forward);
  m.impl("tree_lstm_backward", backward);
  m.impl("tree_lstm_into", tree_lstm_into);
  m.impl("tree_lstm_backward_into", tree_lstm_backward_into);
}

}  // namespace smex::kernels
