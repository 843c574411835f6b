// Causal attention of a tile of queries, by fused calls that count queries and keys from 0.
//
// The queries from `first` on see all keys before `first`, and of those from there on what a causal
// call shows them. Both parts' results merge by their log-sum-exp; gradients, which are given that
// of the whole row, add up.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <vector>

#include "kernels/scaled_dot_product/operator.h"

namespace smex::kernels {

/// Two results over different keys as one over all of them.
inline AttentionResult merge_attention(const AttentionResult& a, const AttentionResult& b) {
  const auto& [out_a, sum_a] = a;
  const auto& [out_b, sum_b] = b;
  const at::Tensor sum = at::logaddexp(sum_a, sum_b);
  const auto weighted = [&](const at::Tensor& out, const at::Tensor& part) {
    return out * (part - sum).exp_().unsqueeze(-1);
  };
  return {(weighted(out_a, sum_a) + weighted(out_b, sum_b)).to(out_a.scalar_type()), sum};
}

/// Where the keys that a tile of queries sees are cut.
struct VisibleKeys {
  int64_t all = 0;   ///< keys that every query sees
  int64_t some = 0;  ///< keys after them that a causal call shows to some

  VisibleKeys(int64_t first, int64_t queries, int64_t keys)
      : all(std::min(first, keys)), some(std::min(first + queries, keys) - all) {}
};

/// With all heads of queries in one dimension, as fused calls take them.
inline at::Tensor flat_heads(const at::Tensor& x, bool grouped) {
  return grouped ? x.flatten(1, 2) : x;
}
inline at::Tensor grouped_heads(const at::Tensor& x, const at::Tensor& query) {
  return query.dim() == 5 ? x.unflatten(1, {query.size(1), query.size(2)}) : x;
}
inline AttentionOptions flat_heads(const AttentionOptions& options, const at::Tensor& query,
                                   const at::Tensor& key) {
  AttentionOptions flat = options;
  if (options.mask && query.dim() == 5 && options.mask->dim() > 2) {
    at::DimVector shape(query.sizes());
    shape.back() = key.size(2);
    flat.mask = options.mask->expand(shape).flatten(1, 2);
  }
  return flat;
}

/// `forward(query, key, value, options)` is the fused call.
template <typename Forward>
AttentionResult attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                       const AttentionOptions& options, at::IntArrayRef offset,
                       const Forward& forward) {
  // Results lie as the queries do: with the heads of a query beside each other, what follows is a
  // view of them.
  const at::Tensor q =
      flat_heads(query, query.dim() == 5).transpose(1, 2).contiguous().transpose(1, 2);
  const AttentionOptions flat = flat_heads(options, query, key);
  const VisibleKeys keys(first_query(offset), q.size(2), key.size(2));
  const auto part = [&](int64_t begin, int64_t count, const AttentionOptions& how) {
    return forward(q, key.narrow(2, begin, count), value.narrow(2, begin, count), how);
  };
  const auto result = [&]() -> AttentionResult {
    if (!flat.causal || keys.all == 0) return forward(q, key, value, flat);
    const AttentionResult before = part(0, keys.all, flat.everything_visible());
    return keys.some == 0 ? before : merge_attention(before, part(keys.all, keys.some, flat));
  }();
  return {grouped_heads(std::get<0>(result), query), grouped_heads(std::get<1>(result), query)};
}

/// What the gradients are computed from.
struct AttentionTensors {
  at::Tensor grad, query, key, value, output, logsumexp;
};

/// `backward(tensors, options)` is the fused call of the gradients.
template <typename Backward>
AttentionGradients attend_backward(const AttentionTensors& given, const AttentionOptions& options,
                                   at::IntArrayRef offset, const Backward& backward) {
  const bool grouped = given.query.dim() == 5;
  AttentionTensors x = given;
  for (at::Tensor* rows : {&x.grad, &x.query, &x.output, &x.logsumexp})
    *rows = flat_heads(*rows, grouped);
  const AttentionOptions flat = flat_heads(options, given.query, x.key);
  const VisibleKeys keys(first_query(offset), x.query.size(2), x.key.size(2));
  const auto part = [&](int64_t begin, int64_t count, const AttentionOptions& how) {
    AttentionTensors some = x;
    some.key = x.key.narrow(2, begin, count);
    some.value = x.value.narrow(2, begin, count);
    return backward(some, how);
  };
  if (!flat.causal || keys.all == 0) {
    auto [grad_query, grad_key, grad_value] = backward(x, flat);
    return {grouped_heads(grad_query, given.query), grad_key, grad_value};
  }
  const AttentionGradients before = part(0, keys.all, flat.everything_visible());
  AttentionGradients after;
  if (keys.some > 0) after = part(keys.all, keys.some, flat);
  const int64_t unseen = x.key.size(2) - keys.all - keys.some;
  const auto joined = [&](const at::Tensor& a, const at::Tensor& b, const at::Tensor& whole) {
    std::vector<at::Tensor> pieces = {a};
    if (b.defined()) pieces.push_back(b);
    if (unseen > 0)
      pieces.push_back(at::zeros_like(whole.narrow(2, whole.size(2) - unseen, unseen)));
    return pieces.size() == 1 ? a : at::cat(pieces, 2);
  };
  const at::Tensor& rest = std::get<0>(after);
  const at::Tensor grad_query = rest.defined() ? std::get<0>(before) + rest : std::get<0>(before);
  return {grouped_heads(grad_query, given.query),
          joined(std::get<1>(before), std::get<1>(after), x.key),
          joined(std::get<2>(before), std::get<2>(after), x.value)};
}

}  // namespace smex::kernels
