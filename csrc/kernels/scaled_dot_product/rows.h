// Attention of a box of queries and keys, by fused calls that count both from 0.
//
// Of a causal call the queries see all keys before the first of them, and of those from there on
// what a causal call shows them; queries before the first key see none. Both parts' results merge
// by their log-sum-exp; gradients, which are given that of the whole row, add up.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <utility>
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

/// `rows` after `hidden` rows of `value`, laid out as fused calls lay out theirs: the heads of a
/// query beside each other.
inline at::Tensor after_hidden(const at::Tensor& rows, int64_t hidden, double value) {
  if (hidden == 0) return rows;
  at::DimVector shape(rows.sizes());
  shape[2] += hidden;
  std::swap(shape[1], shape[2]);
  const at::Tensor all = at::full(shape, value, rows.options()).transpose(1, 2);
  all.narrow(2, hidden, rows.size(2)).copy_(rows);
  return all;
}

/// Lets rows of which the mask hides all these keys weigh nothing beside those of other keys; fused
/// calls give them the sum 0.
inline void hide_masked(const at::Tensor& mask, AttentionResult& result) {
  auto& [output, sum] = result;
  const at::Tensor hidden = mask.eq(kUnseen).all(-1);
  sum = sum.masked_fill(hidden, kUnseen);
  output = output.masked_fill(hidden.unsqueeze(-1), 0);
}

/// Queries at the beginning of a tile that see none of its keys.
inline int64_t hidden_queries(const AttentionOptions& options, const AttentionTile& tile,
                              int64_t queries) {
  const int64_t before = tile.first_key() - tile.first_query();
  return options.causal ? std::clamp<int64_t>(before, 0, queries) : 0;
}

/// `forward(query, key, value, options)` is the fused call.
template <typename Forward>
AttentionResult attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                       const AttentionOptions& options, const AttentionTile& tile,
                       const Forward& forward) {
  // Results lie as the queries do: with the heads of a query beside each other, what follows is a
  // view of them.
  const at::Tensor rows =
      flat_heads(query, query.dim() == 5).transpose(1, 2).contiguous().transpose(1, 2);
  const AttentionOptions flat = flat_heads(options, query, key);
  const int64_t hidden = hidden_queries(options, tile, rows.size(2));
  const at::Tensor q = rows.narrow(2, hidden, rows.size(2) - hidden);
  const VisibleKeys keys(tile.first_query() + hidden - tile.first_key(), q.size(2), key.size(2));
  const auto part = [&](int64_t begin, int64_t count, const AttentionOptions& how) {
    return forward(q, key.narrow(2, begin, count), value.narrow(2, begin, count), how);
  };
  AttentionResult result = [&]() -> AttentionResult {
    if (q.size(2) == 0) return forward(rows, key, value, flat);  // nothing of it is kept
    if (!flat.causal || keys.all == 0) return forward(q, key, value, flat);
    const AttentionResult before = part(0, keys.all, flat.everything_visible());
    return keys.some == 0 ? before : merge_attention(before, part(keys.all, keys.some, flat));
  }();
  auto& [output, sum] = result;
  if (tile.may_lack_keys() && flat.mask) hide_masked(*flat.mask, result);
  if (hidden > 0) {
    output = after_hidden(output.narrow(2, 0, q.size(2)), hidden, 0);
    sum = after_hidden(sum.narrow(2, 0, q.size(2)), hidden, kUnseen);
  }
  return {grouped_heads(output, query), grouped_heads(sum, query)};
}

/// Of queries, keys and values.
using FusedGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// `backward(tensors, options)` is the fused call of the gradients.
template <typename Backward>
AttentionGradients attend_backward(const AttentionTensors& given, const AttentionOptions& options,
                                   const AttentionTile& tile, const Backward& backward) {
  const bool grouped = given.query.dim() == 5;
  AttentionTensors x = given;
  const int64_t queries = given.query.size(-2);
  const int64_t hidden = hidden_queries(options, tile, queries);
  for (at::Tensor* rows : {&x.grad, &x.query, &x.output, &x.logsumexp}) {
    *rows = flat_heads(*rows, grouped).narrow(2, hidden, queries - hidden);
  }
  const AttentionOptions flat = flat_heads(options, given.query, x.key);
  // Of rows that see nothing fused calls expect the sum 0.
  if (flat.mask) x.logsumexp = x.logsumexp.masked_fill(x.logsumexp.eq(kUnseen), 0);
  const VisibleKeys keys(tile.first_query() + hidden - tile.first_key(), queries - hidden,
                         x.key.size(2));
  const auto result = [&](const at::Tensor& grad_query, const at::Tensor& grad_key,
                          const at::Tensor& grad_value) -> AttentionGradients {
    return {grouped_heads(after_hidden(grad_query, hidden, 0), given.query), grad_key, grad_value,
            at::Tensor()};
  };
  if (hidden == queries && queries > 0) {
    return result(at::zeros_like(x.query), at::zeros_like(x.key), at::zeros_like(x.value));
  }
  const auto part = [&](int64_t begin, int64_t count, const AttentionOptions& how) {
    AttentionTensors some = x;
    some.key = x.key.narrow(2, begin, count);
    some.value = x.value.narrow(2, begin, count);
    return backward(some, how);
  };
  if (!flat.causal || keys.all == 0) {
    const auto [grad_query, grad_key, grad_value] = backward(x, flat);
    return result(grad_query, grad_key, grad_value);
  }
  const FusedGradients before = part(0, keys.all, flat.everything_visible());
  FusedGradients after;
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
  return result(rest.defined() ? std::get<0>(before) + rest : std::get<0>(before),
                joined(std::get<1>(before), std::get<1>(after), x.key),
                joined(std::get<2>(before), std::get<2>(after), x.value));
}

}  // namespace smex::kernels
