#pragma once

#include <cstdint>

namespace smex::kernels {

/// A dense tensor `[rows, width]`, of rows that may be parts of longer ones.
struct Rows {
  int64_t rows = 0;
  int64_t width = 0;
};

/// What is known of rows before their gradient: `x`, and by row `mean` and `rstd`. `weight` is by
/// place, null for ones.
template <typename T>
struct NormalizedRows {
  const T* x = nullptr;
  const T* mean = nullptr;
  const T* rstd = nullptr;
  const T* weight = nullptr;
};

/// `mean[r] = Σ x / count` for the rows `begin` to `end`; `count` is that of whole rows.
template <typename T>
void row_mean_cpu(const Rows& size, const T* x, int64_t count, T* mean, int64_t begin, int64_t end);

/// `result[r] = Σ (x - mean[r])²` for the rows `begin` to `end`.
template <typename T>
void row_squares_cpu(const Rows& size, const T* x, const T* mean, T* result, int64_t begin,
                     int64_t end);

/// `result = (x - mean[r]) rstd[r] weight[c] + bias[c]` for the rows `begin` to `end`; `bias` is
/// null for zeros.
template <typename T>
void row_normalize_cpu(const Rows& size, const NormalizedRows<T>& of, const T* bias, T* result,
                       int64_t begin, int64_t end);

/// `sums[r] = {Σ grad weight[c], Σ grad weight[c] (x - mean[r]) rstd[r]}` for the rows `begin` to
/// `end`.
template <typename T>
void row_gradient_sums_cpu(const Rows& size, const T* grad, const NormalizedRows<T>& of, T* sums,
                           int64_t begin, int64_t end);

/// `weight[c] = Σ grad (x - mean[r]) rstd[r]` and `bias[c] = Σ grad` over all rows, for the places
/// `begin` to `end`.
template <typename T>
void affine_gradients_cpu(const Rows& size, const T* grad, const NormalizedRows<T>& of, T* weight,
                          T* bias, int64_t begin, int64_t end);

/// `result = rstd[r] (grad weight[c] - (sums[r][0] + (x - mean[r]) rstd[r] sums[r][1]) / count)`
/// for the rows `begin` to `end`; `count` is that of whole rows.
template <typename T>
void row_gradient_cpu(const Rows& size, const T* grad, const NormalizedRows<T>& of, const T* sums,
                      int64_t count, T* result, int64_t begin, int64_t end);

}  // namespace smex::kernels
