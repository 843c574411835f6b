// Attention where a device has no calls for it, and parts of it over different keys, made
// comparable.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <torch/library.h>

#include <limits>

#include "kernels/scaled_dot_product/operator.h"

namespace smex::kernels {
namespace {

/// A mean of a part [..., E], times what the part weighs beside all others: the results of all
/// parts add up to the mean of all. A part that weighs nothing counts nothing.
at::Tensor weigh_part(const at::Tensor& part, const at::Tensor& part_logsumexp,
                      const at::Tensor& logsumexp) {
  TORCH_CHECK_VALUE(part_logsumexp.sizes() == logsumexp.sizes() && part.dim() >= logsumexp.dim() &&
                        part.sizes().slice(0, logsumexp.dim()) == logsumexp.sizes(),
                    "smex::weigh_part: expected sums of the first dimensions of the part ",
                    part.sizes(), ", found ", part_logsumexp.sizes(), " and ", logsumexp.sizes());
  at::Tensor weight = (part_logsumexp - logsumexp).exp_();
  weight.masked_fill_(part_logsumexp.eq(-std::numeric_limits<double>::infinity()), 0);
  while (weight.dim() < part.dim()) weight = weight.unsqueeze(-1);
  at::Tensor weighed = at::empty_like(part);
  at::mul_out(weighed, part, weight);
  return weighed;
}

AttentionResult scaled_dot_product_by_calls(const at::Tensor& query, const at::Tensor& key,
                                            const at::Tensor& value, const OptionalTensor& mask,
                                            bool causal, std::optional<double> scale,
                                            at::IntArrayRef offset, at::IntArrayRef key_offset,
                                            double p, int64_t seed, int64_t stream,
                                            at::IntArrayRef global_shape) {
  const AttentionOptions options{mask, causal, scale, {p, seed, stream, global_shape}};
  const AttentionTile tile{offset, key_offset};
  check_attention("smex::scaled_dot_product", query, key, value, options, tile);
  return attend_by_calls(query, key, value, options, tile);
}

AttentionGradients scaled_dot_product_backward_by_calls(
    const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& output, const at::Tensor& logsumexp, const OptionalTensor& mask, bool causal,
    std::optional<double> scale, at::IntArrayRef offset, at::IntArrayRef key_offset, double p,
    int64_t seed, int64_t stream, at::IntArrayRef global_shape, bool mask_gradient) {
  const AttentionOptions options{mask, causal, scale, {p, seed, stream, global_shape}};
  const AttentionTile tile{offset, key_offset};
  check_attention("smex::scaled_dot_product_backward", query, key, value, options, tile);
  check_mask_gradient(mask, mask_gradient);
  const AttentionTensors given{grad, query, key, value, output, logsumexp};
  return attend_by_calls_backward(given, options, tile, mask_gradient);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) {
  m.impl("scaled_dot_product", scaled_dot_product_by_calls);
  m.impl("scaled_dot_product_backward", scaled_dot_product_backward_by_calls);
  m.impl("weigh_part", weigh_part);
}

}  // namespace smex::kernels
