// The gradient of max and min: it flows to the winning edges only.
#pragma once

#include "kernels/message/gradients.h"

namespace smex::kernels {

/// The gradient of operand `index` of a maximum or minimum whose winning positions are `winner`
/// [num_rows, ...], given the result's gradient of the same shape. O(num_rows * elements).
at::Tensor winner_gradient(const SavedMessage& saved, int index, const at::Tensor& winner,
                           const c10::SymInt& num_sources, const at::Tensor& grad);

}  // namespace smex::kernels
