#include "kernels/normalization/channels.h"

#include <algorithm>
#include <vector>

#include "kernels/normalization/cpu/add_sums.h"

namespace smex::kernels {
template <typename T>
void centered_square_sum_cpu(const Channels& size, const T* x, const T* mean, T* result,
                             int64_t begin, int64_t end) {
  if (size.inner == 1) {  // rows of channels
    std::vector<double> totals(end - begin, 0);
    for (int64_t n = 0; n < size.batch; ++n) {
      const T* const row = x + n * size.channels;
      for (int64_t c = begin; c < end; ++c) {
        const T centered = row[c] - mean[c];
        totals[c - begin] += static_cast<double>(centered * centered);
      }
    }
    std::copy(totals.begin(), totals.end(), result + begin);
    return;
  }
  for (int64_t c = begin; c < end; ++c) {
    const T center = mean[c];
    double total = 0, unused = 0;
    for (int64_t n = 0; n < size.batch; ++n) {
      const T* const plane = x + (n * size.channels + c) * size.inner;
      const auto square = [&](int64_t i) { return (plane[i] - center) * (plane[i] - center); };
      add_sums<T>(size.inner, square, [](int64_t) { return T(0); }, total, unused);
    }
    result[c] = static_cast<T>(total);
  }
}

template <typename T>
void channel_sums_cpu(const Channels& size, const T* grad, const T* x, const T* mean, T* sum,
                      T* centered, int64_t begin, int64_t end) {
  if (size.inner == 1) {  // rows of channels
    std::vector<double> sums(end - begin, 0), products(end - begin, 0);
    for (int64_t n = 0; n < size.batch; ++n) {
      const T* const grad_row = grad + n * size.channels;
      const T* const row = x + n * size.channels;
      for (int64_t c = begin; c < end; ++c) {
        sums[c - begin] += static_cast<double>(grad_row[c]);
        products[c - begin] += static_cast<double>(grad_row[c] * (row[c] - mean[c]));
      }
    }
    std::copy(sums.begin(), sums.end(), sum + begin);
    std::copy(products.begin(), products.end(), centered + begin);
    return;
  }
  for (int64_t c = begin; c < end; ++c) {
    const T center = mean[c];
    double total = 0, product = 0;
    for (int64_t n = 0; n < size.batch; ++n) {
      const int64_t offset = (n * size.channels + c) * size.inner;
      const T* const grad_plane = grad + offset;
      const T* const plane = x + offset;
      add_sums<T>(
          size.inner, [&](int64_t i) { return grad_plane[i]; },
          [&](int64_t i) { return grad_plane[i] * (plane[i] - center); }, total, product);
    }
    sum[c] = static_cast<T>(total);
    centered[c] = static_cast<T>(product);
  }
}

template <typename T>
void channel_combine_cpu(const Channels& size, const T* grad, const T* x, const T* mean,
                         const T* scale, const T* shift, const T* slope, T* result, int64_t begin,
                         int64_t end) {
  for (int64_t plane = begin; plane < end; ++plane) {
    const int64_t c = plane % size.channels;
    const T a = scale[c], b = shift[c], k = slope[c], center = mean[c];
    const T* const from = x + plane * size.inner;
    const T* const grad_from = grad + plane * size.inner;
    T* const to = result + plane * size.inner;
    for (int64_t i = 0; i < size.inner; ++i)
      to[i] = a * (grad_from[i] - b - (from[i] - center) * k);
  }
}

#define SMEX_INSTANTIATE(T)                                                                     \
  template void centered_square_sum_cpu<T>(const Channels&, const T*, const T*, T*, int64_t,    \
                                           int64_t);                                            \
  template void channel_sums_cpu<T>(const Channels&, const T*, const T*, const T*, T*, T*,      \
                                    int64_t, int64_t);                                          \
  template void channel_combine_cpu<T>(const Channels&, const T*, const T*, const T*, const T*, \
                                       const T*, const T*, T*, int64_t, int64_t);
SMEX_INSTANTIATE(float)
SMEX_INSTANTIATE(double)
#undef SMEX_INSTANTIATE

}  // namespace smex::kernels
