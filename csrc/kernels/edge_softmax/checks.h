// What the operators check of a call on every device.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>

namespace smex::kernels {

/// Checks types, shapes and devices of scores, and of their gradient where there is one.
void check_scores(at::TensorList edges, std::initializer_list<at::Tensor> tensors);

}  // namespace smex::kernels
