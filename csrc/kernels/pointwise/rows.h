// Element-wise programs on the rows of matrices, for kernels that are made of them.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/pointwise/program.h"

namespace smex::kernels {

/// A matrix whose rows are dense; a stride of 0 repeats one row.
template <typename T>
struct RowMatrix {
  T* data = nullptr;
  int64_t row_stride = 0;  ///< in elements
};

/// Runs a program on `rows` rows of `width` numbers. A result may lie in the memory of an operand,
/// element by element. Torch's threads share the rows.
template <typename T, size_t Operands, size_t Outs>
void run_on_rows(const PointwiseProgram& program,
                 const std::array<RowMatrix<const T>, Operands>& operands,
                 const std::array<RowMatrix<T>, Outs>& outs, int64_t rows, int64_t width) {
  constexpr int64_t kNumbersWorthAThread = 4096;  // of the dozens of operations of a cell
  constexpr size_t kCount = Outs + Operands;
  std::array<char*, kCount> first;
  std::array<int64_t, 2 * kCount> strides;
  const auto add = [&](size_t k, const T* data, int64_t row_stride) {
    first[k] = reinterpret_cast<char*>(const_cast<T*>(data));
    strides[k] = sizeof(T);
    strides[kCount + k] = row_stride * static_cast<int64_t>(sizeof(T));
  };
  for (size_t k = 0; k < Outs; ++k) add(k, outs[k].data, outs[k].row_stride);
  for (size_t k = 0; k < Operands; ++k) add(Outs + k, operands[k].data, operands[k].row_stride);
  const int64_t grain = std::max<int64_t>(1, kNumbersWorthAThread / std::max<int64_t>(1, width));
  at::parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) {
    std::array<char*, kCount> data = first;
    for (size_t k = 0; k < kCount; ++k) data[k] += begin * strides[kCount + k];
    SMEX_PICK(run_pointwise<T>)(program, data.data(), strides.data(), width, end - begin);
  });
}

}  // namespace smex::kernels
