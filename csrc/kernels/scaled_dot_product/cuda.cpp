// By ATen's memory-efficient call, whose causal masks count from the first query and key as those
// of the CPU do; it takes as many heads of keys as of queries, and no float64.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <torch/library.h>

#include <cmath>
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

/// The scores, where no fused call takes the type.
at::Tensor scores(const at::Tensor& query, const at::Tensor& key, const AttentionOptions& how) {
  const double scale = how.scale.value_or(1 / std::sqrt(static_cast<double>(query.size(3))));
  at::Tensor score = at::matmul(query, key.transpose(2, 3)) * scale;
  if (how.mask) score = score + *how.mask;
  if (!how.causal) return score;
  const auto ids = [&](int64_t n) { return at::arange(n, query.options().dtype(at::kLong)); };
  return score.masked_fill(ids(key.size(2)).unsqueeze(0) > ids(query.size(2)).unsqueeze(1),
                           -std::numeric_limits<double>::infinity());
}

AttentionResult forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                        const AttentionOptions& how) {
  const int64_t heads = query.size(1);
  const at::Tensor k = for_each_head(key, heads), v = for_each_head(value, heads);
  if (query.scalar_type() == at::kDouble) {
    const at::Tensor score = scores(query, k, how), sum = at::logsumexp(score, {-1});
    return {at::matmul((score - sum.unsqueeze(-1)).exp(), v), sum};
  }
  const auto result = at::_scaled_dot_product_efficient_attention(
      query, k, v, expanded_mask(how.mask, query, key), /*compute_log_sumexp=*/true,
      /*dropout_p=*/0, how.causal, how.scale);
  // Rows of sums are padded to whole tiles of the kernel.
  return {std::get<0>(result), std::get<1>(result).narrow(2, 0, query.size(2))};
}

AttentionGradients backward(const AttentionTensors& x, const AttentionOptions& how) {
  const auto& [grad, query, key, value, output, logsumexp] = x;
  const int64_t heads = query.size(1), shared = key.size(1);
  const at::Tensor k = for_each_head(key, heads), v = for_each_head(value, heads);
  if (query.scalar_type() == at::kDouble) {
    const double scale = how.scale.value_or(1 / std::sqrt(static_cast<double>(query.size(3))));
    const at::Tensor weight = (scores(query, k, how) - logsumexp.unsqueeze(-1)).exp();
    const at::Tensor delta = (grad * output).sum(-1, /*keepdim=*/true);
    const at::Tensor change = weight * (at::matmul(grad, v.transpose(2, 3)) - delta) * scale;
    return {at::matmul(change, k),
            to_shared_heads(at::matmul(change.transpose(2, 3), query), shared),
            to_shared_heads(at::matmul(weight.transpose(2, 3), grad), shared)};
  }
  constexpr int64_t kTile = 32;
  const int64_t rows = query.size(2), padding = (kTile - rows % kTile) % kTile;
  const at::Tensor sums =
      at::constant_pad_nd(logsumexp, {0, padding}, std::numeric_limits<double>::infinity());
  const at::Tensor no_seed = at::empty({0}, query.options().dtype(at::kLong));
  const auto result = at::_scaled_dot_product_efficient_attention_backward(
      grad, query, k, v, expanded_mask(how.mask, query, key).value_or(at::Tensor()), output,
      sums.contiguous(), no_seed, no_seed, /*dropout_p=*/0, {true, true, true, false}, how.causal,
      how.scale);
  return {std::get<0>(result), to_shared_heads(std::get<1>(result), shared),
          to_shared_heads(std::get<2>(result), shared)};
}

AttentionResult scaled_dot_product_cuda(const at::Tensor& query, const at::Tensor& key,
                                        const at::Tensor& value, const OptionalTensor& mask,
                                        bool causal, std::optional<double> scale,
                                        at::IntArrayRef offset, at::IntArrayRef key_offset) {
  const AttentionOptions options{mask, causal, scale};
  const AttentionTile tile{offset, key_offset};
  check_attention("smex::scaled_dot_product", query, key, value, options, tile);
  return attend(query, key, value, options, tile, forward);
}

AttentionGradients scaled_dot_product_backward_cuda(
    const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& output, const at::Tensor& logsumexp, const OptionalTensor& mask, bool causal,
    std::optional<double> scale, at::IntArrayRef offset, at::IntArrayRef key_offset) {
  const AttentionOptions options{mask, causal, scale};
  const AttentionTile tile{offset, key_offset};
  check_attention("smex::scaled_dot_product_backward", query, key, value, options, tile);
  return attend_backward({grad, query, key, value, output, logsumexp}, options, tile, backward);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CUDA, m) {
  m.impl("scaled_dot_product", scaled_dot_product_cuda);
  m.impl("scaled_dot_product_backward", scaled_dot_product_backward_cuda);
}

}  // namespace smex::kernels
