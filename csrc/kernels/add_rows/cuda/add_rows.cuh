// The kernel of smex::add_rows: a thread for each few neighbouring columns of each row that is
// added, of which those of a number's first row add up all of them.
#pragma once

#include "kernels/add_rows/add_rows.h"
#include "kernels/cuda/pack.cuh"

namespace smex::kernels {

template <typename T, int V>
__global__ void __launch_bounds__(kThreads) add_rows_kernel(AddRows<T> task) {
  const int64_t packs = task.width / V;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t unit = int64_t{blockIdx.x} * kThreads + threadIdx.x; unit < task.count * packs;
       unit += step) {
    const PackPlace at = PackPlace::of<V>(unit, packs);
    const int64_t number = task.index[task.order[at.row]];
    if (number < 0 || number >= task.num_rows) trap("a row's number out of range");
    if (number == task.absent) continue;
    if (at.row > 0 && task.index[task.order[at.row - 1]] == number) continue;
    T* const to = task.to + number * task.to_stride + at.column;
    auto sum = load_mutable_pack<V>(to);
    for (int64_t i = at.row; i < task.count; ++i) {
      const int64_t row = task.order[i];
      if (task.index[row] != number) break;
      sum = sum + load_pack<V>(task.rows + row * task.rows_stride + at.column);
    }
    store_pack<V>(to, sum);
  }
}

template <typename T>
void add_rows_cuda(const AddRows<T>& task, CUstream_st* stream) {
  if (task.count == 0 || task.width == 0) return;
  const auto fits = [&](int64_t bytes) {
    return rows_are_aligned(task.rows, task.rows_stride, bytes) &&
           rows_are_aligned(task.to, task.to_stride, bytes);
  };
  with_vector<T>(task.width, fits, [&](auto v) {
    constexpr int V = v.value;
    launch(add_rows_kernel<T, V>, blocks_for(task.count * (task.width / V), kThreads), kThreads,
           stream, task);
  });
}

}  // namespace smex::kernels
