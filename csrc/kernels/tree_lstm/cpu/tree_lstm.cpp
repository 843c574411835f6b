// Compiled once for each instruction set.
#include "kernels/tree_lstm/tree_lstm.h"

#include "kernels/cpu/exp.h"
#include "kernels/cpu/tanh_erf.h"
#include "kernels/tree_lstm/cell_formula.h"

namespace smex::kernels::SMEX_ISA {
namespace {

template <typename T, int W>
struct VectorFunctions {
  static SMEX_INLINE Vector<T, W> sigmoid(Vector<T, W> x) { return T(1) / (T(1) + exp_of<W>(-x)); }
  static SMEX_INLINE Vector<T, W> tanh(Vector<T, W> x) { return tanh_of<W>(x); }
};

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
      const auto value = cell_value<VectorFunctions<T, W>>(
          task.children, [&](int64_t k) { return load<T, W>(gates + task.places[k] * width + at); },
          [&](int64_t j) { return load<T, W>(task.cells[j] + row * task.cell_strides[j] + at); });
      store<W>(c + at, value.c);
      store<W>(h + at, value.h);
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
      cell_gradient<VectorFunctions<T, W>, T>(
          task.children, load<T, W>(task.c + row * task.c_stride + at),
          load<T, W>(task.grad_h + row * task.grad_h_stride + at),
          load<T, W>(task.grad_c + row * task.grad_c_stride + at),
          [&](int64_t k) { return load<T, W>(gates + task.places[k] * width + at); },
          [&](int64_t j) { return load<T, W>(task.cells[j] + row * task.cell_strides[j] + at); },
          [&](int64_t k, Vector<T, W> grad) {
            store<W>(grads + task.places[k] * width + at, grad);
          },
          [&](int64_t j, Vector<T, W> grad) {
            store<W>(task.grad_cells + (row * task.children + j) * width + at, grad);
          });
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
