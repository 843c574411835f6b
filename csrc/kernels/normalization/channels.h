#pragma once

#include <cstdint>

namespace smex::kernels {

/// A dense tensor `[batch, channels, inner]`.
struct Channels {
  int64_t batch = 0;
  int64_t channels = 0;
  int64_t inner = 0;
};

/// `result[c] = Σ (x - mean[c])²` for the channels `begin` to `end`.
template <typename T>
void centered_square_sum_cpu(const Channels& size, const T* x, const T* mean, T* result,
                             int64_t begin, int64_t end);

/// `sum[c] = Σ grad` and `centered[c] = Σ grad (x - mean[c])` for the channels `begin` to `end`.
template <typename T>
void channel_sums_cpu(const Channels& size, const T* grad, const T* x, const T* mean, T* sum,
                      T* centered, int64_t begin, int64_t end);

/// `result = scale[c] (grad - shift[c] - (x - mean[c]) slope[c])` for the planes `begin` to `end`
/// of batch × channels.
template <typename T>
void channel_combine_cpu(const Channels& size, const T* grad, const T* x, const T* mean,
                         const T* scale, const T* shift, const T* slope, T* result, int64_t begin,
                         int64_t end);

}  // namespace smex::kernels
