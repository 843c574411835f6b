// Matrices for CUDA kernels that are run on the CPU; included after cuda_emulator.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "kernels/numbers.h"

namespace smex::kernels {

template <typename T>
T number(double x) {
  T result;
  narrow(static_cast<accumulate_t<T>>(x), result);
  return result;
}

/// Rows with `gap` elements behind each and before the first; what is not set is NaN.
template <typename T>
struct Matrix {
  int64_t rows, columns, stride, first;
  std::vector<T> data;

  Matrix(int64_t rows, int64_t columns, int64_t gap)
      : rows(rows),
        columns(columns),
        stride(columns + gap),
        first(gap),
        data(static_cast<size_t>(gap + rows * stride),
             number<T>(std::numeric_limits<double>::quiet_NaN())) {}

  Matrix(int64_t rows, int64_t columns, int64_t gap, std::mt19937& random)
      : Matrix(rows, columns, gap) {
    std::uniform_real_distribution<double> uniform(-2, 2);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) at(i, j) = number<T>(uniform(random));
  }

  T* begin() { return data.data() + first; }
  T& at(int64_t i, int64_t j) { return begin()[i * stride + j]; }
  double value(int64_t i, int64_t j) { return static_cast<double>(widen(at(i, j))); }

  /// Whether what lies between the rows is as it was.
  bool gaps_are_untouched() {
    for (int64_t k = 0; k < static_cast<int64_t>(data.size()); ++k) {
      const int64_t column = k < first ? columns : (k - first) % stride;
      if (column >= columns && !std::isnan(static_cast<double>(widen(data[k])))) return false;
    }
    return true;
  }
};

}  // namespace smex::kernels
