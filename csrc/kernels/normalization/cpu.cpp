#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <algorithm>

#include "kernels/normalization/channels.h"
#include "kernels/normalization/operator.h"

namespace smex::kernels {
namespace {

// Elements that are worth a thread: torch's own grain for element-wise kernels.
constexpr int64_t kGrainSize = 32768;

Channels size_of(const at::Tensor& x) {
  Channels size{x.size(0), x.size(1), 1};
  for (int64_t d = 2; d < x.dim(); ++d) size.inner *= x.size(d);
  return size;
}

bool has_kernel(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble;
}

int64_t channel_grain(const Channels& size) {
  return std::max<int64_t>(1, kGrainSize / std::max<int64_t>(1, size.batch * size.inner));
}

at::Tensor centered_square_sum_on_cpu(const at::Tensor& x, const at::Tensor& mean) {
  if (!has_kernel(x)) return centered_square_sum(x, mean);
  check_channels("smex::centered_square_sum", x, {}, {mean});
  const at::Tensor dense = x.contiguous(), center = mean.contiguous();
  const at::Tensor result = at::empty_like(center);
  const Channels size = size_of(x);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "smex::centered_square_sum", [&] {
    const auto* const from = dense.const_data_ptr<scalar_t>();
    const auto* const at_mean = center.const_data_ptr<scalar_t>();
    auto* const to = result.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, size.channels, channel_grain(size), [&](int64_t begin, int64_t end) {
      centered_square_sum_cpu(size, from, at_mean, to, begin, end);
    });
  });
  return result;
}

std::tuple<at::Tensor, at::Tensor> channel_sums_on_cpu(const at::Tensor& grad, const at::Tensor& x,
                                                       const at::Tensor& mean) {
  if (!has_kernel(x)) return channel_sums(grad, x, mean);
  check_channels("smex::channel_sums", x, {grad}, {mean});
  const at::Tensor dense_grad = grad.contiguous(), dense = x.contiguous();
  const at::Tensor center = mean.contiguous();
  const at::Tensor sum = at::empty_like(center), centered = at::empty_like(center);
  const Channels size = size_of(x);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "smex::channel_sums", [&] {
    const auto* const from_grad = dense_grad.const_data_ptr<scalar_t>();
    const auto* const from = dense.const_data_ptr<scalar_t>();
    const auto* const at_mean = center.const_data_ptr<scalar_t>();
    auto* const to_sum = sum.mutable_data_ptr<scalar_t>();
    auto* const to_centered = centered.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, size.channels, channel_grain(size), [&](int64_t begin, int64_t end) {
      channel_sums_cpu(size, from_grad, from, at_mean, to_sum, to_centered, begin, end);
    });
  });
  return {sum, centered};
}

at::Tensor channel_combine_on_cpu(const at::Tensor& grad, const at::Tensor& x,
                                  const at::Tensor& mean, const at::Tensor& scale,
                                  const at::Tensor& shift, const at::Tensor& slope) {
  if (!has_kernel(x)) return channel_combine(grad, x, mean, scale, shift, slope);
  check_channels("smex::channel_combine", x, {grad}, {mean, scale, shift, slope});
  const at::Tensor dense_grad = grad.contiguous(), dense = x.contiguous();
  const at::Tensor vectors[] = {mean.contiguous(), scale.contiguous(), shift.contiguous(),
                                slope.contiguous()};
  const at::Tensor result = at::empty_like(dense);
  const Channels size = size_of(x);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "smex::channel_combine", [&] {
    const auto* const from_grad = dense_grad.const_data_ptr<scalar_t>();
    const auto* const from = dense.const_data_ptr<scalar_t>();
    const scalar_t* at_vector[4];
    for (int i = 0; i < 4; ++i) at_vector[i] = vectors[i].const_data_ptr<scalar_t>();
    auto* const to = result.mutable_data_ptr<scalar_t>();
    const int64_t grain = std::max<int64_t>(1, kGrainSize / std::max<int64_t>(1, size.inner));
    at::parallel_for(0, size.batch * size.channels, grain, [&](int64_t begin, int64_t end) {
      channel_combine_cpu(size, from_grad, from, at_vector[0], at_vector[1], at_vector[2],
                          at_vector[3], to, begin, end);
    });
  });
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("centered_square_sum", centered_square_sum_on_cpu);
  m.impl("channel_sums", channel_sums_on_cpu);
  m.impl("channel_combine", channel_combine_on_cpu);
}

}  // namespace smex::kernels
