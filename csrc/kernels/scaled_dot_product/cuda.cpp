// By ATen's calls, as torch chooses among them: the flash call for halves, the memory-efficient one
// for float32 and what the other does not take, and calls block by block where neither fits: with
// dropout, which they draw in an order of their own, gradients of the mask, and float64.
//
// Causal masks count from the first query and key here. Those of the memory-efficient call do too;
// those of the flash call count from the last ones, so that it is for as many queries as keys only.
#include <ATen/TensorOperators.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <limits>

#include "kernels/scaled_dot_product/rows.h"

namespace smex::kernels {
namespace {

/// Keys or values with a head for each of the queries'.
at::Tensor for_each_head(const at::Tensor& x, int64_t heads) {
  return x.size(1) == heads ? x : x.repeat_interleave(heads / x.size(1), 1);
}

/// The gradient of `for_each_head`.
at::Tensor to_shared_heads(const at::Tensor& grad, int64_t heads) {
  if (grad.size(1) == heads) return grad;
  return grad.unflatten(1, {heads, grad.size(1) / heads}).sum(2);
}

OptionalTensor expanded_mask(const OptionalTensor& mask, const at::Tensor& query,
                             const at::Tensor& key) {
  if (!mask) return mask;
  return mask->to(query.scalar_type())
      .expand({query.size(0), query.size(1), query.size(2), key.size(2)});
}

/// Whether one of ATen's calls computes it.
bool has_fused_call_on_cuda(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            const AttentionOptions& options) {
  return options.dropout.p == 0 && query.scalar_type() != at::kDouble && query.numel() > 0 &&
         key.numel() > 0 && value.numel() > 0;
}

/// Whether the flash call does: what torch asks of it.
bool is_for_flash(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const AttentionOptions& how) {
  constexpr int64_t kLargestHead = 256, kAlignment = 8;
  constexpr int kAmpere = 8;
  const int64_t size = query.size(3);
  return query.scalar_type() != at::kFloat && !how.mask && value.size(3) == size &&
         size <= kLargestHead && size % kAlignment == 0 &&
         (!how.causal || query.size(2) == key.size(2)) &&
         at::cuda::getDeviceProperties(query.get_device())->major >= kAmpere;
}

AttentionResult fused_forward(const at::Tensor& query, const at::Tensor& key,
                              const at::Tensor& value, const AttentionOptions& how) {
  if (is_for_flash(query, key, value, how)) {
    const auto result = at::_scaled_dot_product_flash_attention(
        query, key, value, /*dropout_p=*/0, how.causal, /*return_debug_mask=*/false, how.scale);
    return {std::get<0>(result), std::get<1>(result)};
  }
  const int64_t heads = query.size(1);
  const auto result = at::_scaled_dot_product_efficient_attention(
      query, for_each_head(key, heads), for_each_head(value, heads),
      expanded_mask(how.mask, query, key), /*compute_log_sumexp=*/true, /*dropout_p=*/0, how.causal,
      how.scale);
  // Rows of sums are padded to whole tiles of the kernel.
  return {std::get<0>(result), std::get<1>(result).narrow(2, 0, query.size(2))};
}

FusedGradients flash_backward(const AttentionTensors& x, const AttentionOptions& how) {
  const at::Tensor no_seed = at::empty({}, x.query.options().dtype(at::kLong));
  const at::Tensor all_of_one_length;
  return at::_scaled_dot_product_flash_attention_backward(
      x.grad, x.query, x.key, x.value, x.output, x.logsumexp.contiguous(), all_of_one_length,
      all_of_one_length, x.query.size(2), x.key.size(2), /*dropout_p=*/0, how.causal, no_seed,
      no_seed, how.scale);
}

FusedGradients fused_backward(const AttentionTensors& x, const AttentionOptions& how) {
  const auto& [grad, query, key, value, output, logsumexp] = x;
  if (is_for_flash(query, key, value, how)) return flash_backward(x, how);
  const int64_t heads = query.size(1), shared = key.size(1);
  constexpr int64_t kTile = 32;
  const int64_t rows = query.size(2), padding = (kTile - rows % kTile) % kTile;
  const at::Tensor sums =
      at::constant_pad_nd(logsumexp, {0, padding}, std::numeric_limits<double>::infinity());
  const at::Tensor no_seed = at::empty({0}, query.options().dtype(at::kLong));
  const auto result = at::_scaled_dot_product_efficient_attention_backward(
      grad, query, for_each_head(key, heads), for_each_head(value, heads),
      expanded_mask(how.mask, query, key).value_or(at::Tensor()), output, sums.contiguous(),
      no_seed, no_seed, /*dropout_p=*/0, {true, true, true, false}, how.causal, how.scale);
  return {std::get<0>(result), to_shared_heads(std::get<1>(result), shared),
          to_shared_heads(std::get<2>(result), shared)};
}

AttentionResult scaled_dot_product_cuda(const at::Tensor& query, const at::Tensor& key,
                                        const at::Tensor& value, const OptionalTensor& mask,
                                        bool causal, std::optional<double> scale,
                                        at::IntArrayRef offset, at::IntArrayRef key_offset,
                                        double p, int64_t seed, int64_t stream,
                                        at::IntArrayRef global_shape) {
  const AttentionOptions options{mask, causal, scale, {p, seed, stream, global_shape}};
  const AttentionTile tile{offset, key_offset};
  check_attention("smex::scaled_dot_product", query, key, value, options, tile);
  if (!has_fused_call_on_cuda(query, key, value, options))
    return attend_by_calls(query, key, value, options, tile);
  return attend(query, key, value, options, tile, fused_forward);
}

AttentionGradients scaled_dot_product_backward_cuda(
    const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& output, const at::Tensor& logsumexp, const OptionalTensor& mask, bool causal,
    std::optional<double> scale, at::IntArrayRef offset, at::IntArrayRef key_offset, double p,
    int64_t seed, int64_t stream, at::IntArrayRef global_shape, bool mask_gradient) {
  const AttentionOptions options{mask, causal, scale, {p, seed, stream, global_shape}};
  const AttentionTile tile{offset, key_offset};
  check_attention("smex::scaled_dot_product_backward", query, key, value, options, tile);
  check_mask_gradient(mask, mask_gradient);
  const AttentionTensors given{grad, query, key, value, output, logsumexp};
  if (mask_gradient || !has_fused_call_on_cuda(query, key, value, options))
    return attend_by_calls_backward(given, options, tile, mask_gradient);
  return attend_backward(given, options, tile, fused_backward);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CUDA, m) {
  m.impl("scaled_dot_product", scaled_dot_product_cuda);
  m.impl("scaled_dot_product_backward", scaled_dot_product_backward_cuda);
}

}  // namespace smex::kernels
