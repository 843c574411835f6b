// Messages that no kernel can take as they are, by torch's operators: every edge's is stored.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/message/expression.h"
#include "kernels/message/operands.h"

namespace smex::kernels {

/// The value of `message` for every edge, in the order of positions: [num_edges, ...] in the type
/// of the operands.
at::Tensor unfused_message(const EdgeTensors& edges, const Message& message,
                           at::TensorList operands);

/// As smex::sddmm, into `out` in the order of edge ids.
void unfused_sddmm_into(const EdgeTensors& edges, const Message& message, at::TensorList operands,
                        const at::Tensor& out);

}  // namespace smex::kernels
