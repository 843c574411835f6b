// What the files that register the operator share.
#pragma once

#include <ATen/core/Tensor.h>

namespace smex::kernels {

constexpr const char* kMaxPool2dBackward = "smex::max_pool2d_backward";

/// The gradient has the pooled shape.
void check_pooled(const at::Tensor& grad, at::IntArrayRef pooled);

/// Whatever the device and mode: positions are found again by ATen's forward kernel.
at::Tensor max_pool2d_backward(const at::Tensor& grad, const at::Tensor& x,
                               at::IntArrayRef kernel_size, at::IntArrayRef stride,
                               at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode);

}  // namespace smex::kernels
