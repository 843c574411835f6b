// What the files that register these operators share.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace smex::kernels {

using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

constexpr const char* kGat = "smex::gat_attention";
constexpr const char* kGatBySource = "smex::gat_gradient_by_source";
constexpr const char* kGatByDestination = "smex::gat_gradient_by_destination";

/// Checks all arguments of a call but for `out_edges`.
void check_gat(at::TensorList in_edges, const at::Tensor& left, const at::Tensor& right,
               const at::Tensor& value);

/// Checks all arguments of a gradient of some of the edges; `name` tells whose they are.
void check_gat_part(const char* name, at::TensorList edges, const at::Tensor& left,
                    const at::Tensor& right, const at::Tensor& value, const at::Tensor& log_sum,
                    const at::Tensor& change, const at::Tensor& grad);

/// The values by operators that store a weight for every edge and have gradients themselves.
at::Tensor gat_by_steps(at::TensorList in_edges, at::TensorList out_edges, const at::Tensor& left,
                        const at::Tensor& right, const at::Tensor& value, double slope);

/// smex::gat_attention through torch's dispatcher.
Two call_gat(at::TensorList in_edges, at::TensorList out_edges, const at::Tensor& left,
             const at::Tensor& right, const at::Tensor& value, double slope);

/// smex::gat_attention_backward through torch's dispatcher.
Three call_gat_backward(at::TensorList in_edges, at::TensorList out_edges, const at::Tensor& left,
                        const at::Tensor& right, const at::Tensor& value, const at::Tensor& out,
                        const at::Tensor& log_sum, const at::Tensor& grad, double slope);

}  // namespace smex::kernels
