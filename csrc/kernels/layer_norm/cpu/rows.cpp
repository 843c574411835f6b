#include "kernels/layer_norm/rows.h"

#include <algorithm>
#include <vector>

#include "kernels/normalization/cpu/add_sums.h"

namespace smex::kernels {

template <typename T>
void row_mean_cpu(const Rows& size, const T* x, int64_t count, T* mean, int64_t begin,
                  int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const T* const row = x + r * size.width;
    double total = 0, unused = 0;
    add_sums<T>(
        size.width, [&](int64_t i) { return row[i]; }, [](int64_t) { return T(0); }, total, unused);
    mean[r] = static_cast<T>(total / static_cast<double>(count));
  }
}

template <typename T>
void row_squares_cpu(const Rows& size, const T* x, const T* mean, T* result, int64_t begin,
                     int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const T* const row = x + r * size.width;
    const T center = mean[r];
    const auto square = [&](int64_t i) { return (row[i] - center) * (row[i] - center); };
    double total = 0, unused = 0;
    add_sums<T>(size.width, square, [](int64_t) { return T(0); }, total, unused);
    result[r] = static_cast<T>(total);
  }
}

template <typename T>
void row_normalize_cpu(const Rows& size, const NormalizedRows<T>& of, const T* bias, T* result,
                       int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const T* const row = of.x + r * size.width;
    T* const to = result + r * size.width;
    const T center = of.mean[r], scale = of.rstd[r];
    for (int64_t c = 0; c < size.width; ++c) to[c] = (row[c] - center) * scale;
    if (of.weight) {
      for (int64_t c = 0; c < size.width; ++c) to[c] *= of.weight[c];
    }
    if (bias) {
      for (int64_t c = 0; c < size.width; ++c) to[c] += bias[c];
    }
  }
}

template <typename T>
void row_gradient_sums_cpu(const Rows& size, const T* grad, const NormalizedRows<T>& of, T* sums,
                           int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const T* const row = of.x + r * size.width;
    const T* const grad_row = grad + r * size.width;
    const T center = of.mean[r], scale = of.rstd[r];
    double total = 0, product = 0;
    const auto add = [&](const auto& scaled) {
      add_sums<T>(
          size.width, scaled, [&](int64_t c) { return scaled(c) * ((row[c] - center) * scale); },
          total, product);
    };
    if (of.weight) {
      add([&](int64_t c) { return grad_row[c] * of.weight[c]; });
    } else {
      add([&](int64_t c) { return grad_row[c]; });
    }
    sums[2 * r] = static_cast<T>(total);
    sums[2 * r + 1] = static_cast<T>(product);
  }
}

template <typename T>
void affine_gradients_cpu(const Rows& size, const T* grad, const NormalizedRows<T>& of, T* weight,
                          T* bias, int64_t begin, int64_t end) {
  std::vector<double> weights(end - begin, 0), biases(end - begin, 0);
  for (int64_t r = 0; r < size.rows; ++r) {
    const T* const row = of.x + r * size.width;
    const T* const grad_row = grad + r * size.width;
    const T center = of.mean[r], scale = of.rstd[r];
    for (int64_t c = begin; c < end; ++c) {
      weights[c - begin] += static_cast<double>(grad_row[c] * ((row[c] - center) * scale));
      biases[c - begin] += static_cast<double>(grad_row[c]);
    }
  }
  std::copy(weights.begin(), weights.end(), weight + begin);
  std::copy(biases.begin(), biases.end(), bias + begin);
}

template <typename T>
void row_gradient_cpu(const Rows& size, const T* grad, const NormalizedRows<T>& of, const T* sums,
                      int64_t count, T* result, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const T* const row = of.x + r * size.width;
    const T* const grad_row = grad + r * size.width;
    T* const to = result + r * size.width;
    const T center = of.mean[r], scale = of.rstd[r];
    const T shift = sums[2 * r] / static_cast<T>(count);
    const T slope = sums[2 * r + 1] / static_cast<T>(count);
    const auto fill = [&](const auto& scaled) {
      for (int64_t c = 0; c < size.width; ++c) {
        to[c] = scale * (scaled(c) - shift - (row[c] - center) * scale * slope);
      }
    };
    if (of.weight) {
      fill([&](int64_t c) { return grad_row[c] * of.weight[c]; });
    } else {
      fill([&](int64_t c) { return grad_row[c]; });
    }
  }
}

#define SMEX_INSTANTIATE(T)                                                                        \
  template void row_mean_cpu<T>(const Rows&, const T*, int64_t, T*, int64_t, int64_t);             \
  template void row_squares_cpu<T>(const Rows&, const T*, const T*, T*, int64_t, int64_t);         \
  template void row_normalize_cpu<T>(const Rows&, const NormalizedRows<T>&, const T*, T*, int64_t, \
                                     int64_t);                                                     \
  template void row_gradient_sums_cpu<T>(const Rows&, const T*, const NormalizedRows<T>&, T*,      \
                                         int64_t, int64_t);                                        \
  template void affine_gradients_cpu<T>(const Rows&, const T*, const NormalizedRows<T>&, T*, T*,   \
                                        int64_t, int64_t);                                         \
  template void row_gradient_cpu<T>(const Rows&, const T*, const NormalizedRows<T>&, const T*,     \
                                    int64_t, T*, int64_t, int64_t);
SMEX_INSTANTIATE(float)
SMEX_INSTANTIATE(double)
#undef SMEX_INSTANTIATE

}  // namespace smex::kernels
