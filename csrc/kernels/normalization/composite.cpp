#include <ATen/TensorOperators.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <torch/library.h>

#include <vector>

#include "kernels/normalization/operator.h"

namespace smex::kernels {
namespace {

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

}  // namespace

at::Tensor centered_square_sum(const at::Tensor& x, const at::Tensor& mean) {
  check_channels("smex::centered_square_sum", x, {}, {mean});
  const at::Tensor centered = x - per_channel(mean, x);
  return (centered * centered).sum(all_but_channels(x));
}

std::tuple<at::Tensor, at::Tensor> channel_sums(const at::Tensor& grad, const at::Tensor& x,
                                                const at::Tensor& mean) {
  check_channels("smex::channel_sums", x, {grad}, {mean});
  const std::vector<int64_t> dims = all_but_channels(x);
  return {grad.sum(dims), (grad * (x - per_channel(mean, x))).sum(dims)};
}

at::Tensor channel_combine(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& mean,
                           const at::Tensor& scale, const at::Tensor& shift,
                           const at::Tensor& slope) {
  check_channels("smex::channel_combine", x, {grad}, {mean, scale, shift, slope});
  const at::Tensor centered = x - per_channel(mean, x);
  return (grad - per_channel(shift, x) - centered * per_channel(slope, x)) * per_channel(scale, x);
}

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) {
  m.impl("centered_square_sum", centered_square_sum);
  m.impl("channel_sums", channel_sums);
  m.impl("channel_combine", channel_combine);
}

}  // namespace smex::kernels
