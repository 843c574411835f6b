// The gradient of max pooling from the pooled tensor itself. ATen's takes positions in the whole
// plane instead, which mean nothing in a tile of it, and which keep 8 bytes an element alive.
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "kernels/pooling/operator.h"

namespace smex::kernels {

void check_pooled(const at::Tensor& grad, at::IntArrayRef pooled) {
  TORCH_CHECK_VALUE(grad.sizes() == pooled,
                    "smex::max_pool2d_backward: expected a gradient of the pooled shape ", pooled,
                    ", found ", grad.sizes());
}

namespace {

at::Tensor max_pool2d_backward_meta(const at::Tensor& /*grad*/, const at::Tensor& x,
                                    at::IntArrayRef /*kernel_size*/, at::IntArrayRef /*stride*/,
                                    at::IntArrayRef /*padding*/, at::IntArrayRef /*dilation*/,
                                    bool /*ceil_mode*/) {
  return at::empty_like(x);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "max_pool2d_backward(Tensor grad, Tensor x, int[2] kernel_size, int[2] stride=[], "
      "int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) { m.impl("max_pool2d_backward", max_pool2d_backward_meta); }

}  // namespace smex::kernels
