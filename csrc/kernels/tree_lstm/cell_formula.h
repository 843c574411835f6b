// The arithmetic of an LSTM cell and its gradient (cells.h), for the vectors of CPU kernels and for
// the few elements that a thread of a GPU works on.
#pragma once

#include <cstdint>

#include "host_device.h"

namespace smex::kernels {

template <typename V>
struct CellValue {
  V h, c;
};

/// `gate(k)` is the k-th of the gates i, o, u, f_1, ... and `cell(j)` the cell of child j;
/// `Functions` has `sigmoid` and `tanh` of what they give.
template <typename Functions, typename Gate, typename Cell>
SMEX_HOST_DEVICE auto cell_value(int64_t children, const Gate& gate, const Cell& cell) {
  auto c = Functions::sigmoid(gate(0)) * Functions::tanh(gate(2));
  for (int64_t j = 0; j < children; ++j) c = c + Functions::sigmoid(gate(3 + j)) * cell(j);
  return CellValue<decltype(c)>{Functions::sigmoid(gate(1)) * Functions::tanh(c), c};
}

/// Gives `put(k, gradient)` for each gate and `put_cell(j, gradient)` for each child's cell, from
/// the cell's own value `c` and the gradients of h and c. A gate is read before its gradient is
/// put, which may lie where the gate lay.
template <typename Functions, typename C, typename V, typename Gate, typename Cell, typename Put,
          typename PutCell>
SMEX_HOST_DEVICE void cell_gradient(int64_t children, const V& c, const V& grad_h, const V& grad_c,
                                    const Gate& gate, const Cell& cell, const Put& put,
                                    const PutCell& put_cell) {
  const V input = Functions::sigmoid(gate(0)), output = Functions::sigmoid(gate(1));
  const V update = Functions::tanh(gate(2)), shown = Functions::tanh(c);
  const V grad = grad_c + grad_h * output * (C(1) - shown * shown);
  put(0, grad * update * input * (C(1) - input));
  put(1, grad_h * shown * output * (C(1) - output));
  put(2, grad * input * (C(1) - update * update));
  for (int64_t j = 0; j < children; ++j) {
    const V forget = Functions::sigmoid(gate(3 + j));
    put(3 + j, grad * cell(j) * forget * (C(1) - forget));
    put_cell(j, grad * forget);
  }
}

}  // namespace smex::kernels
