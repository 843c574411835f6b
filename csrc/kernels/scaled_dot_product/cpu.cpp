#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <torch/library.h>

#include "kernels/scaled_dot_product/rows.h"

namespace smex::kernels {
namespace {

/// Whether ATen's fused call computes it.
bool has_fused_call(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const AttentionOptions& options) {
  return options.dropout.p == 0 && value.size(3) == query.size(-1) && query.numel() > 0 &&
         key.numel() > 0;
}

AttentionResult scaled_dot_product_cpu(const at::Tensor& query, const at::Tensor& key,
                                       const at::Tensor& value, const OptionalTensor& mask,
                                       bool causal, std::optional<double> scale,
                                       at::IntArrayRef offset, at::IntArrayRef key_offset, double p,
                                       int64_t seed, int64_t stream, at::IntArrayRef global_shape) {
  const AttentionOptions options{mask, causal, scale, {p, seed, stream, global_shape}};
  const AttentionTile tile{offset, key_offset};
  check_attention("smex::scaled_dot_product", query, key, value, options, tile);
  if (!has_fused_call(query, key, value, options))
    return attend_by_blocks(query, key, value, options, tile);
  return attend(query, key, value, options, tile,
                [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                   const AttentionOptions& how) {
                  return at::_scaled_dot_product_flash_attention_for_cpu(
                      q, k, v, /*dropout_p=*/0, how.causal, how.mask, how.scale);
                });
}

AttentionGradients scaled_dot_product_backward_cpu(
    const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& output, const at::Tensor& logsumexp, const OptionalTensor& mask, bool causal,
    std::optional<double> scale, at::IntArrayRef offset, at::IntArrayRef key_offset, double p,
    int64_t seed, int64_t stream, at::IntArrayRef global_shape, bool mask_gradient) {
  const AttentionOptions options{mask, causal, scale, {p, seed, stream, global_shape}};
  const AttentionTile tile{offset, key_offset};
  check_attention("smex::scaled_dot_product_backward", query, key, value, options, tile);
  check_mask_gradient(mask, mask_gradient);
  const AttentionTensors given{grad, query, key, value, output, logsumexp};
  if (mask_gradient || !has_fused_call(query, key, value, options))
    return attend_by_blocks_backward(given, options, tile, mask_gradient);
  return attend_backward(given, options, tile,
                         [](const AttentionTensors& x, const AttentionOptions& how) {
                           return at::_scaled_dot_product_flash_attention_for_cpu_backward(
                               x.grad, x.query, x.key, x.value, x.output, x.logsumexp,
                               /*dropout_p=*/0, how.causal, how.mask, how.scale);
                         });
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("scaled_dot_product", scaled_dot_product_cpu);
  m.impl("scaled_dot_product_backward", scaled_dot_product_backward_cpu);
}

}  // namespace smex::kernels
