// By ATen's calls, as torch chooses among them: the flash call for halves, the memory-efficient one
// for float32 and what the other does not take, both with heads padded to whole loads, and calls
// block by block where neither fits: with dropout, which they draw in an order of their own,
// gradients of the mask, and float64.
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

/// What ATen's calls read in one load: rows have to begin at multiples of it.
constexpr int64_t kLoadBytes = 16;

int64_t alignment_of(const at::Tensor& x) { return kLoadBytes / x.element_size(); }

/// Zeros behind each row of x, up to a multiple of what is read in one load.
at::Tensor padded(const at::Tensor& x) {
  const int64_t each = alignment_of(x), rest = x.size(-1) % each;
  return rest == 0 ? x : at::constant_pad_nd(x, {0, each - rest});
}

/// x with rows that begin where loads may, of heads of a size that the calls take: further numbers
/// of a head are zeros, which add nothing to scores, and to outputs columns of zeros.
at::Tensor aligned(const at::Tensor& x) {
  const at::Tensor wide = padded(x);
  const int64_t each = alignment_of(wide);
  bool fits = wide.stride(3) == 1 && reinterpret_cast<uintptr_t>(wide.data_ptr()) % kLoadBytes == 0;
  for (int64_t d = 0; d < 3; ++d) fits = fits && wide.stride(d) % each == 0;
  return fits ? wide : wide.clone(at::MemoryFormat::Contiguous);
}

/// The columns of x that are not padding.
at::Tensor of_head(const at::Tensor& x, int64_t size) {
  return x.size(3) == size ? x : x.narrow(3, 0, size).contiguous();
}

OptionalTensor expanded_mask(const OptionalTensor& mask, const at::Tensor& query,
                             const at::Tensor& key) {
  if (!mask) return mask;
  const int64_t keys = key.size(2);
  at::Tensor rows = mask->to(query.scalar_type());
  while (rows.dim() < 4) rows = rows.unsqueeze(0);
  rows = rows.expand({rows.size(0), rows.size(1), rows.size(2), keys});
  rows = aligned(rows).narrow(3, 0, keys);
  return rows.expand({query.size(0), query.size(1), query.size(2), keys});
}

/// Whether the flash call computes it: what torch asks of it, but for sizes that padding mends.
bool is_for_flash(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const AttentionOptions& how) {
  constexpr int64_t kLargestHead = 256;
  constexpr int kAmpere = 8;
  const int64_t size = query.size(-1);
  return query.scalar_type() != at::kFloat && !how.mask && value.size(-1) == size &&
         size <= kLargestHead && (!how.causal || query.size(-2) == key.size(-2)) &&
         at::cuda::getDeviceProperties(query.get_device())->major >= kAmpere;
}

/// Whether the memory-efficient call's gradients are right. Those of halves were not for heads of 8
/// and of 16 numbers, padded ones, on an H100 with torch 2.11.
bool is_for_efficient(const at::Tensor& query, const at::Tensor& value) {
  constexpr int64_t kLeastHead = 24;
  if (query.scalar_type() == at::kFloat) return true;
  const int64_t each = alignment_of(query), size = query.size(-1);
  return size >= kLeastHead && size % each == 0 && value.size(-1) % each == 0;
}

/// Whether ATen's calls compute it. Of a causal tile they are given the keys that all queries see
/// apart, and then those that some see, of which the flash call takes as many as queries.
bool has_fused_call_on_cuda(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            const AttentionOptions& options, const AttentionTile& tile) {
  if (options.dropout.p != 0 || query.scalar_type() == at::kDouble) return false;
  if (query.numel() == 0 || key.numel() == 0 || value.numel() == 0) return false;
  if (is_for_efficient(query, value)) return true;
  const int64_t queries = query.size(-2), hidden = hidden_queries(options, tile, queries);
  const VisibleKeys keys(tile.first_query() + hidden - tile.first_key(), queries - hidden,
                         key.size(2));
  AttentionOptions part = options;
  part.causal = false;
  const bool is_square = !options.causal || keys.some == 0 || keys.some == queries - hidden;
  return is_square && is_for_flash(query, key, value, part);
}

AttentionResult fused_forward(const at::Tensor& query_rows, const at::Tensor& key_rows,
                              const at::Tensor& value_rows, const AttentionOptions& how) {
  const at::Tensor query = aligned(query_rows), key = aligned(key_rows),
                   value = aligned(value_rows);
  const double scale = how.scale_of(query_rows);
  const int64_t size = value_rows.size(3);
  if (is_for_flash(query, key, value, how)) {
    const auto result = at::_scaled_dot_product_flash_attention(
        query, key, value, /*dropout_p=*/0, how.causal, /*return_debug_mask=*/false, scale);
    return {of_head(std::get<0>(result), size), std::get<1>(result)};
  }
  const int64_t heads = query.size(1);
  const auto result = at::_scaled_dot_product_efficient_attention(
      query, for_each_head(key, heads), for_each_head(value, heads),
      expanded_mask(how.mask, query, key), /*compute_log_sumexp=*/true, /*dropout_p=*/0, how.causal,
      scale);
  // Rows of sums are padded to whole tiles of the kernel.
  return {of_head(std::get<0>(result), size), std::get<1>(result).narrow(2, 0, query.size(2))};
}

FusedGradients flash_backward(const AttentionTensors& x, const AttentionOptions& how,
                              double scale) {
  const at::Tensor no_seed = at::empty({}, x.query.options().dtype(at::kLong));
  const at::Tensor all_of_one_length;
  return at::_scaled_dot_product_flash_attention_backward(
      x.grad, x.query, x.key, x.value, x.output, x.logsumexp.contiguous(), all_of_one_length,
      all_of_one_length, x.query.size(2), x.key.size(2), /*dropout_p=*/0, how.causal, no_seed,
      no_seed, scale);
}

FusedGradients efficient_backward(const AttentionTensors& x, const AttentionOptions& how,
                                  double scale) {
  const auto& [grad, query, key, value, output, logsumexp] = x;
  const int64_t heads = query.size(1), shared = key.size(1);
  constexpr int64_t kTile = 32;
  const int64_t rows = query.size(2), padding = (kTile - rows % kTile) % kTile;
  const at::Tensor sums =
      at::constant_pad_nd(logsumexp, {0, padding}, std::numeric_limits<double>::infinity());
  const at::Tensor no_seed = at::empty({0}, query.options().dtype(at::kLong));
  const auto result = at::_scaled_dot_product_efficient_attention_backward(
      grad, query, for_each_head(key, heads), for_each_head(value, heads),
      expanded_mask(how.mask, query, key).value_or(at::Tensor()), output, sums.contiguous(),
      no_seed, no_seed, /*dropout_p=*/0, {true, true, true, false}, how.causal, scale);
  return {std::get<0>(result), to_shared_heads(std::get<1>(result), shared),
          to_shared_heads(std::get<2>(result), shared)};
}

FusedGradients fused_backward(const AttentionTensors& x, const AttentionOptions& how) {
  const AttentionTensors wide{aligned(x.grad),  aligned(x.query),  aligned(x.key),
                              aligned(x.value), aligned(x.output), x.logsumexp};
  const double scale = how.scale_of(x.query);
  const auto [query, key, value] = is_for_flash(wide.query, wide.key, wide.value, how)
                                       ? flash_backward(wide, how, scale)
                                       : efficient_backward(wide, how, scale);
  return {of_head(query, x.query.size(3)), of_head(key, x.key.size(3)),
          of_head(value, x.value.size(3))};
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
  if (!has_fused_call_on_cuda(query, key, value, options, tile))
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
  if (mask_gradient || !has_fused_call_on_cuda(query, key, value, options, tile))
    return attend_by_calls_backward(given, options, tile, mask_gradient);
  return attend_backward(given, options, tile, fused_backward);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CUDA, m) {
  m.impl("scaled_dot_product", scaled_dot_product_cuda);
  m.impl("scaled_dot_product_backward", scaled_dot_product_backward_cuda);
}

}  // namespace smex::kernels
