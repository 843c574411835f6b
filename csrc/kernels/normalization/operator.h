// What the files that register these operators share.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <tuple>

namespace smex::kernels {

/// `x` is [N, C, ...] of a floating point type, `like` of its shape and `vectors` [C].
void check_channels(const char* op, const at::Tensor& x, std::initializer_list<at::Tensor> like,
                    std::initializer_list<at::Tensor> vectors);

// By ATen's operators, for any device and type.
at::Tensor centered_square_sum(const at::Tensor& x, const at::Tensor& mean);
std::tuple<at::Tensor, at::Tensor> channel_sums(const at::Tensor& grad, const at::Tensor& x,
                                                const at::Tensor& mean);
at::Tensor channel_combine(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& mean,
                           const at::Tensor& scale, const at::Tensor& shift,
                           const at::Tensor& slope);

}  // namespace smex::kernels
