#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace smex::kernels {

/// Attention over in-edges by operators that store a weight for every edge and head: the sum of the
/// values `[sources, heads, features]`, weighted by the softmax of the messages `score`, which are
/// `[heads]` or `[heads, 1]` for each edge.
at::Tensor attention_by_steps(at::TensorList in_edges, at::TensorList out_edges,
                              std::string_view score, at::TensorList operands,
                              const at::Tensor& value);

}  // namespace smex::kernels
