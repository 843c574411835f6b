// What batch normalization consists of when the batch is cut: sums over a channel, which workers
// add up between them, and the element-wise rest. ATen has the whole only.
#include "kernels/normalization/channels.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>

namespace smex::kernels {
namespace {

// Elements that are worth a thread: torch's own grain for element-wise kernels.
constexpr int64_t kGrainSize = 32768;

void check(const char* op, const at::Tensor& x, std::initializer_list<at::Tensor> like,
           std::initializer_list<at::Tensor> vectors) {
  TORCH_CHECK_VALUE(x.dim() >= 2, op, ": expected at least 2 dimensions [N, C, ...], found ",
                    x.sym_sizes());
  TORCH_CHECK_TYPE(x.is_floating_point(), op, ": expected floating point, found ", x.scalar_type());
  for (const at::Tensor& tensor : like) {
    TORCH_CHECK_VALUE(tensor.sym_sizes() == x.sym_sizes(), op, ": expected a gradient of shape ",
                      x.sym_sizes(), ", found ", tensor.sym_sizes());
  }
  for (const at::Tensor& vector : vectors) {
    TORCH_CHECK_VALUE(vector.dim() == 1 && vector.sym_size(0) == x.sym_size(1), op,
                      ": expected a vector of ", x.sym_size(1), " channels, found shape ",
                      vector.sym_sizes());
  }
  for (const auto& tensors : {like, vectors}) {
    for (const at::Tensor& tensor : tensors) {
      TORCH_CHECK_TYPE(tensor.scalar_type() == x.scalar_type(), op, ": expected type ",
                       x.scalar_type(), ", found ", tensor.scalar_type());
    }
  }
}

Channels size_of(const at::Tensor& x) {
  Channels size{x.size(0), x.size(1), 1};
  for (int64_t d = 2; d < x.dim(); ++d) size.inner *= x.size(d);
  return size;
}

at::Tensor per_channel(const at::Tensor& vector, const at::Tensor& x) {
  at::SymDimVector shape(x.dim(), 1);
  shape[1] = x.sym_size(1);
  return vector.view_symint(shape);
}

std::vector<int64_t> all_but_channels(const at::Tensor& x) {
  std::vector<int64_t> dims = {0};
  for (int64_t d = 2; d < x.dim(); ++d) dims.push_back(d);
  return dims;
}

bool has_kernel(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble;
}

int64_t channel_grain(const Channels& size) {
  return std::max<int64_t>(1, kGrainSize / std::max<int64_t>(1, size.batch * size.inner));
}

// ---- by ATen's operators, for any device and type ----

at::Tensor centered_square_sum(const at::Tensor& x, const at::Tensor& mean) {
  check("smex::centered_square_sum", x, {}, {mean});
  const at::Tensor centered = x - per_channel(mean, x);
  return (centered * centered).sum(all_but_channels(x));
}

std::tuple<at::Tensor, at::Tensor> channel_sums(const at::Tensor& grad, const at::Tensor& x,
                                                const at::Tensor& mean) {
  check("smex::channel_sums", x, {grad}, {mean});
  const std::vector<int64_t> dims = all_but_channels(x);
  return {grad.sum(dims), (grad * (x - per_channel(mean, x))).sum(dims)};
}

at::Tensor channel_combine(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& mean,
                           const at::Tensor& scale, const at::Tensor& shift,
                           const at::Tensor& slope) {
  check("smex::channel_combine", x, {grad}, {mean, scale, shift, slope});
  const at::Tensor centered = x - per_channel(mean, x);
  return (grad - per_channel(shift, x) - centered * per_channel(slope, x)) * per_channel(scale, x);
}

// ---- on the CPU ----

at::Tensor centered_square_sum_on_cpu(const at::Tensor& x, const at::Tensor& mean) {
  if (!has_kernel(x)) return centered_square_sum(x, mean);
  check("smex::centered_square_sum", x, {}, {mean});
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
  check("smex::channel_sums", x, {grad}, {mean});
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
  check("smex::channel_combine", x, {grad}, {mean, scale, shift, slope});
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

// ---- shapes only ----

at::Tensor centered_square_sum_meta(const at::Tensor& x, const at::Tensor& mean) {
  check("smex::centered_square_sum", x, {}, {mean});
  return at::empty_like(mean, at::MemoryFormat::Contiguous);
}

std::tuple<at::Tensor, at::Tensor> channel_sums_meta(const at::Tensor& grad, const at::Tensor& x,
                                                     const at::Tensor& mean) {
  check("smex::channel_sums", x, {grad}, {mean});
  return {at::empty_like(mean, at::MemoryFormat::Contiguous),
          at::empty_like(mean, at::MemoryFormat::Contiguous)};
}

at::Tensor channel_combine_meta(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& mean,
                                const at::Tensor& scale, const at::Tensor& shift,
                                const at::Tensor& slope) {
  check("smex::channel_combine", x, {grad}, {mean, scale, shift, slope});
  return at::empty_like(x, at::MemoryFormat::Contiguous);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def("centered_square_sum(Tensor x, Tensor mean) -> Tensor");
  m.def("channel_sums(Tensor grad, Tensor x, Tensor mean) -> (Tensor, Tensor)");
  m.def(
      "channel_combine(Tensor grad, Tensor x, Tensor mean, Tensor scale, Tensor shift, "
      "Tensor slope) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) {
  m.impl("centered_square_sum", centered_square_sum);
  m.impl("channel_sums", channel_sums);
  m.impl("channel_combine", channel_combine);
}

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("centered_square_sum", centered_square_sum_on_cpu);
  m.impl("channel_sums", channel_sums_on_cpu);
  m.impl("channel_combine", channel_combine_on_cpu);
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("centered_square_sum", centered_square_sum_meta);
  m.impl("channel_sums", channel_sums_meta);
  m.impl("channel_combine", channel_combine_meta);
}

}  // namespace smex::kernels
