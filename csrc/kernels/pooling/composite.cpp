#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool2d_with_indices_backward.h>
#include <torch/library.h>

#include "kernels/pooling/operator.h"

namespace smex::kernels {

at::Tensor max_pool2d_backward(const at::Tensor& grad, const at::Tensor& x,
                               at::IntArrayRef kernel_size, at::IntArrayRef stride,
                               at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode) {
  const auto pooled =
      at::max_pool2d_with_indices(x, kernel_size, stride, padding, dilation, ceil_mode);
  check_pooled(grad, std::get<0>(pooled).sizes());
  return at::max_pool2d_with_indices_backward(grad, x, kernel_size, stride, padding, dilation,
                                              ceil_mode, std::get<1>(pooled));
}

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) {
  m.impl("max_pool2d_backward", max_pool2d_backward);
}

}  // namespace smex::kernels
