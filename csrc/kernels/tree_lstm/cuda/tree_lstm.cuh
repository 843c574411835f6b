// Kernels of smex::tree_lstm and its gradient: a thread for each few neighbouring columns of a row.
#pragma once

#include <algorithm>

#include "kernels/cuda/pack.cuh"
#include "kernels/tree_lstm/cell_formula.h"
#include "kernels/tree_lstm/cuda/tree_lstm.h"

namespace smex::kernels {

/// The lists of a task, as a parameter of kernels.
template <typename T>
struct DeviceCells {
  int64_t places[3 + kMostDeviceChildren] = {};
  const T* data[kMostDeviceChildren] = {};
  int64_t strides[kMostDeviceChildren] = {};

  template <typename Task>
  static DeviceCells of(const Task& task) {
    DeviceCells result;
    std::copy_n(task.places, 3 + task.children, result.places);
    std::copy_n(task.cells, task.children, result.data);
    std::copy_n(task.cell_strides, task.children, result.strides);
    return result;
  }

  bool are_aligned(int64_t children, int64_t bytes) const {
    bool result = true;
    for (int64_t j = 0; j < children; ++j)
      result = result && rows_are_aligned(data[j], strides[j], bytes);
    return result;
  }
};

// Memory is read by ordinary loads: gradients may be written where the gates lay, and c beside the
// cells of the children.

template <typename T, int V>
__global__ void __launch_bounds__(kThreads)
    cell_forward_kernel(CellForward<T> task, int64_t rows,
                        const __grid_constant__ DeviceCells<T> cells) {
  using Functions = PackFunctions<accumulate_t<T>, V>;
  const int64_t packs = task.width / V;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t unit = int64_t{blockIdx.x} * kThreads + threadIdx.x; unit < rows * packs;
       unit += step) {
    const PackPlace at = PackPlace::of<V>(unit, packs);
    const T* const gates = task.gates + at.row * task.gates_stride + at.column;
    const auto value = cell_value<Functions>(
        task.children,
        [&](int64_t k) { return load_mutable_pack<V>(gates + cells.places[k] * task.width); },
        [&](int64_t j) {
          return load_mutable_pack<V>(cells.data[j] + at.row * cells.strides[j] + at.column);
        });
    store_pack<V>(task.c + at.row * task.c_stride + at.column, value.c);
    store_pack<V>(task.h + at.row * task.h_stride + at.column, value.h);
  }
}

template <typename T, int V>
__global__ void __launch_bounds__(kThreads)
    cell_backward_kernel(CellBackward<T> task, int64_t rows,
                         const __grid_constant__ DeviceCells<T> cells) {
  using C = accumulate_t<T>;
  const int64_t packs = task.width / V;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t unit = int64_t{blockIdx.x} * kThreads + threadIdx.x; unit < rows * packs;
       unit += step) {
    const PackPlace at = PackPlace::of<V>(unit, packs);
    const T* const gates = task.gates + at.row * task.gates_stride + at.column;
    T* const grads = task.grad_gates + at.row * task.grad_gates_stride + at.column;
    T* const grad_cells = task.grad_cells + at.row * task.children * task.width + at.column;
    cell_gradient<PackFunctions<C, V>, C>(
        task.children, load_mutable_pack<V>(task.c + at.row * task.c_stride + at.column),
        load_mutable_pack<V>(task.grad_h + at.row * task.grad_h_stride + at.column),
        load_mutable_pack<V>(task.grad_c + at.row * task.grad_c_stride + at.column),
        [&](int64_t k) { return load_mutable_pack<V>(gates + cells.places[k] * task.width); },
        [&](int64_t j) {
          return load_mutable_pack<V>(cells.data[j] + at.row * cells.strides[j] + at.column);
        },
        [&](int64_t k, const Pack<C, V>& grad) {
          store_pack<V>(grads + cells.places[k] * task.width, grad);
        },
        [&](int64_t j, const Pack<C, V>& grad) {
          store_pack<V>(grad_cells + j * task.width, grad);
        });
  }
}

template <typename T>
void cell_forward_cuda(const CellForward<T>& task, int64_t rows, CUstream_st* stream) {
  if (rows == 0 || task.width == 0) return;
  const auto cells = DeviceCells<T>::of(task);
  const auto fits = [&](int64_t bytes) {
    return rows_are_aligned(task.gates, task.gates_stride, bytes) &&
           rows_are_aligned(task.h, task.h_stride, bytes) &&
           rows_are_aligned(task.c, task.c_stride, bytes) &&
           cells.are_aligned(task.children, bytes);
  };
  with_vector<T>(task.width, fits, [&](auto v) {
    constexpr int V = v.value;
    launch(cell_forward_kernel<T, V>, blocks_for(rows * (task.width / V), kThreads), kThreads,
           stream, task, rows, cells);
  });
}

template <typename T>
void cell_backward_cuda(const CellBackward<T>& task, int64_t rows, CUstream_st* stream) {
  if (rows == 0 || task.width == 0) return;
  const auto cells = DeviceCells<T>::of(task);
  const auto fits = [&](int64_t bytes) {
    return rows_are_aligned(task.gates, task.gates_stride, bytes) &&
           rows_are_aligned(task.grad_h, task.grad_h_stride, bytes) &&
           rows_are_aligned(task.grad_c, task.grad_c_stride, bytes) &&
           rows_are_aligned(task.c, task.c_stride, bytes) &&
           rows_are_aligned(task.grad_gates, task.grad_gates_stride, bytes) &&
           is_aligned(task.grad_cells, bytes) && cells.are_aligned(task.children, bytes);
  };
  with_vector<T>(task.width, fits, [&](auto v) {
    constexpr int V = v.value;
    launch(cell_backward_kernel<T, V>, blocks_for(rows * (task.width / V), kThreads), kThreads,
           stream, task, rows, cells);
  });
}

}  // namespace smex::kernels
