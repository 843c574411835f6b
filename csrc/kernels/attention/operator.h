// What the files that register the operator share.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "kernels/message/expression.h"

namespace smex::kernels {

constexpr const char* kAttention = "smex::attention";

/// Checks all arguments of a call.
void check_attention(at::TensorList in_edges, at::TensorList out_edges, const Message& score,
                     at::TensorList operands, const at::Tensor& value);

/// smex::attention through torch's dispatcher.
at::Tensor call_attention(at::TensorList in_edges, at::TensorList out_edges, std::string_view score,
                          at::TensorList operands, const at::Tensor& value);

}  // namespace smex::kernels
