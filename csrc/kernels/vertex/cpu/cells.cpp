// Compiled once for each instruction set.
#include "kernels/vertex/cells.h"

#include "kernels/cpu/exp.h"
#include "kernels/cpu/tanh_erf.h"

namespace smex::kernels::SMEX_ISA {
namespace {

template <typename T, int W>
SMEX_INLINE Vector<T, W> sigmoid_of(Vector<T, W> x) {
  return T(1) / (T(1) + exp_of<W>(-x));
}

}  // namespace

template <typename T>
void cell_forward(const CellForward<T>& task, int64_t begin, int64_t end) {
  const int64_t width = task.width;
  for (int64_t row = begin; row < end; ++row) {
    const T* const gates = task.gates + row * task.gates_stride;
    T* const h = task.h + row * task.h_stride;
    T* const c = task.c + row * task.c_stride;
    for_lanes<T>(width, [&](auto w, int64_t at) {
      constexpr int W = w.value;
      const auto gate = [&](int64_t k) { return load<T, W>(gates + task.places[k] * width + at); };
      auto cell = sigmoid_of<T, W>(gate(0)) * tanh_of<W>(gate(2));
      for (int64_t j = 0; j < task.children; ++j) {
        const auto child = load<T, W>(task.cells[j] + row * task.cell_strides[j] + at);
        cell = cell + sigmoid_of<T, W>(gate(3 + j)) * child;
      }
      store<W>(c + at, cell);
      store<W>(h + at, sigmoid_of<T, W>(gate(1)) * tanh_of<W>(cell));
    });
  }
}

template <typename T>
void cell_backward(const CellBackward<T>& task, int64_t begin, int64_t end) {
  const int64_t width = task.width;
  for (int64_t row = begin; row < end; ++row) {
    const T* const gates = task.gates + row * task.gates_stride;
    T* const grads = task.grad_gates + row * task.grad_gates_stride;
    for_lanes<T>(width, [&](auto w, int64_t at) {
      constexpr int W = w.value;
      const auto gate = [&](int64_t k) { return load<T, W>(gates + task.places[k] * width + at); };
      const auto put = [&](int64_t k, Vector<T, W> grad) {
        store<W>(grads + task.places[k] * width + at, grad);
      };
      const auto input = sigmoid_of<T, W>(gate(0)), output = sigmoid_of<T, W>(gate(1));
      const auto update = tanh_of<W>(gate(2));
      const auto shown = tanh_of<W>(load<T, W>(task.c + row * task.c_stride + at));
      const auto grad_h = load<T, W>(task.grad_h + row * task.grad_h_stride + at);
      const auto grad_c = load<T, W>(task.grad_c + row * task.grad_c_stride + at) +
                          grad_h * output * (T(1) - shown * shown);
      put(0, grad_c * update * input * (T(1) - input));
      put(1, grad_h * shown * output * (T(1) - output));
      put(2, grad_c * input * (T(1) - update * update));
      for (int64_t j = 0; j < task.children; ++j) {
        const auto child = load<T, W>(task.cells[j] + row * task.cell_strides[j] + at);
        const auto forget = sigmoid_of<T, W>(gate(3 + j));
        put(3 + j, grad_c * child * forget * (T(1) - forget));
        store<W>(task.grad_cells + (row * task.children + j) * width + at, grad_c * forget);
      }
    });
  }
}

#define SMEX_INSTANTIATE(T)                                               \
  template void cell_forward<T>(const CellForward<T>&, int64_t, int64_t); \
  template void cell_backward<T>(const CellBackward<T>&, int64_t, int64_t);
SMEX_INSTANTIATE(float)
SMEX_INSTANTIATE(double)
#undef SMEX_INSTANTIATE

}  // namespace smex::kernels::SMEX_ISA
