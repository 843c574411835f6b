// What batch normalization consists of when the batch is cut: sums over a channel, which workers
// add up between them, and the element-wise rest. ATen has the whole only.
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "kernels/normalization/operator.h"

namespace smex::kernels {

void check_channels(const char* op, const at::Tensor& x, std::initializer_list<at::Tensor> like,
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

namespace {

at::Tensor centered_square_sum_meta(const at::Tensor& x, const at::Tensor& mean) {
  check_channels("smex::centered_square_sum", x, {}, {mean});
  return at::empty_like(mean, at::MemoryFormat::Contiguous);
}

std::tuple<at::Tensor, at::Tensor> channel_sums_meta(const at::Tensor& grad, const at::Tensor& x,
                                                     const at::Tensor& mean) {
  check_channels("smex::channel_sums", x, {grad}, {mean});
  return {at::empty_like(mean, at::MemoryFormat::Contiguous),
          at::empty_like(mean, at::MemoryFormat::Contiguous)};
}

at::Tensor channel_combine_meta(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& mean,
                                const at::Tensor& scale, const at::Tensor& shift,
                                const at::Tensor& slope) {
  check_channels("smex::channel_combine", x, {grad}, {mean, scale, shift, slope});
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

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("centered_square_sum", centered_square_sum_meta);
  m.impl("channel_sums", channel_sums_meta);
  m.impl("channel_combine", channel_combine_meta);
}

}  // namespace smex::kernels
