// Attention by calls of ATen for some queries at a time: what has no fused call on a device.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "kernels/operator_of.h"
#include "kernels/scaled_dot_product/operator.h"

namespace smex::kernels {
namespace {

// Scores that are made at a time: few beside the operands of attention to many keys, and enough to
// occupy a GPU.
constexpr int64_t kScores = int64_t{1} << 24;

using DropoutMask = at::Tensor(const at::Tensor&, double, int64_t, int64_t, at::IntArrayRef,
                               at::IntArrayRef, std::optional<at::ScalarType>);

/// A call with the heads that share keys in a dimension of their own, [N, G, M, L, E], in the type
/// that sums have.
struct Wide {
  at::Tensor query, key, value, mask;  // the mask undefined where there is none
  int64_t rows;                        // queries at a time

  Wide(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
       const AttentionOptions& options)
      : query(of_queries(q, q.dim())), key(k.unsqueeze(2)), value(v.unsqueeze(2)) {
    if (options.mask) {
      mask = *options.mask;
      while (mask.dim() < q.dim()) mask = mask.unsqueeze(0);
      mask = of_queries(mask, q.dim());
    }
    const int64_t of_one = query.size(0) * query.size(1) * query.size(2) * key.size(3);
    rows = std::max<int64_t>(1, kScores / std::max<int64_t>(of_one, 1));
  }

  static at::Tensor of_queries(const at::Tensor& x, int64_t rank) {
    return rank == 4 ? x.unsqueeze(2) : x;
  }
};

at::Tensor widened(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
}

/// Rows of a tensor [N, G, M, L, ...] that may have one for all.
at::Tensor some_rows(const at::Tensor& x, int64_t first, int64_t count) {
  return x.size(3) == 1 ? x : x.narrow(3, first, count);
}

/// The masked scores of `count` queries from `first` on.
at::Tensor scores(const Wide& x, const AttentionOptions& how, const AttentionTile& tile,
                  int64_t first, int64_t count) {
  at::Tensor score =
      at::matmul(widened(x.query.narrow(3, first, count)), widened(x.key).transpose(3, 4))
          .mul_(how.scale_of(x.query));
  if (x.mask.defined()) score.add_(some_rows(x.mask, first, count));
  if (!how.causal) return score;
  const auto numbers = [&](int64_t begin, int64_t n) {
    return at::arange(begin, begin + n, x.query.options().dtype(at::kLong));
  };
  const at::Tensor keys = numbers(tile.first_key(), x.key.size(3));
  const at::Tensor queries = numbers(tile.first_query() + first, count);
  return score.masked_fill_(keys.unsqueeze(0).gt(queries.unsqueeze(1)), kUnseen);
}

/// Those by each query's sum; 0 of queries that see nothing.
at::Tensor weights(const at::Tensor& score, const at::Tensor& logsumexp) {
  const at::Tensor sum = logsumexp.masked_fill(logsumexp.eq(kUnseen), 0);
  return (score - sum.unsqueeze(-1)).exp_();
}

/// What is drawn for the weights [N, G, M, count, S] of queries from `first` on.
at::Tensor drawn(const at::Tensor& like, const AttentionOptions& how, const AttentionTile& tile,
                 int64_t first) {
  static const auto draw = operator_of<DropoutMask>("smex::dropout_mask");
  const AttentionDropout& dropout = how.dropout;
  at::DimVector shape(dropout.global_shape);
  const bool grouped = shape.size() == 5;
  at::DimVector corner = {tile.first(0), tile.first(1), grouped ? tile.first(2) : 0,
                          tile.first_query() + first, tile.first_key()};
  if (!grouped) shape.insert(shape.begin() + 2, 1);
  return draw.call(like, dropout.p, dropout.seed, dropout.stream, corner, shape, std::nullopt);
}

at::Tensor joined(const std::vector<at::Tensor>& parts, int64_t rank) {
  const at::Tensor all = at::cat(parts, 3);
  return rank == 4 ? all.squeeze(2) : all;
}

/// `term` [N, G, M, L, S] summed over what a mask is repeated along.
at::Tensor summed_to(const at::Tensor& term, const at::Tensor& mask) {
  at::DimVector dims;
  for (int64_t d = 0; d < term.dim(); ++d) {
    if (mask.size(d) == 1 && term.size(d) != 1) dims.push_back(d);
  }
  return dims.empty() ? term : term.sum(dims, /*keepdim=*/true);
}

}  // namespace

AttentionResult attend_by_calls(const at::Tensor& query, const at::Tensor& key,
                                const at::Tensor& value, const AttentionOptions& options,
                                const AttentionTile& tile) {
  const Wide x(query, key, value, options);
  const at::Tensor values = widened(x.value);
  std::vector<at::Tensor> outputs, sums;
  int64_t first = 0;
  do {
    const int64_t count = std::min(x.rows, x.query.size(3) - first);
    const at::Tensor score = scores(x, options, tile, first, count);
    sums.push_back(at::logsumexp(score, {-1}));
    at::Tensor weight = weights(score, sums.back());
    if (options.dropout.p > 0) weight.mul_(drawn(weight, options, tile, first));
    outputs.push_back(at::matmul(weight, values).to(query.scalar_type()));
    first += count;
  } while (first < x.query.size(3));
  return {joined(outputs, query.dim()), joined(sums, query.dim())};
}

AttentionGradients attend_by_calls_backward(const AttentionTensors& given,
                                            const AttentionOptions& options,
                                            const AttentionTile& tile, bool mask_gradient) {
  const int64_t rank = given.query.dim();
  const Wide x(given.query, given.key, given.value, options);
  const at::Tensor keys = widened(x.key), values = widened(x.value);
  const at::Tensor grad_key = at::zeros(keys.sizes(), keys.options());
  const at::Tensor grad_value = at::zeros(values.sizes(), values.options());
  at::Tensor grad_mask;
  if (mask_gradient) grad_mask = at::zeros(x.mask.sizes(), keys.options());
  const double scale = options.scale_of(given.query);
  std::vector<at::Tensor> grad_queries;
  int64_t first = 0;
  do {
    const int64_t count = std::min(x.rows, x.query.size(3) - first);
    const auto some = [&](const at::Tensor& of_all) {
      return widened(Wide::of_queries(of_all, rank).narrow(3, first, count));
    };
    const at::Tensor query = some(given.query), grad = some(given.grad);
    at::Tensor weight = weights(scores(x, options, tile, first, count), some(given.logsumexp));
    at::Tensor change = at::matmul(grad, values.transpose(3, 4));
    const at::Tensor delta = (grad * some(given.output)).sum(-1, /*keepdim=*/true);
    if (options.dropout.p > 0) {
      const at::Tensor factor = drawn(weight, options, tile, first);
      change = change.mul_(factor).sub_(delta).mul_(weight);
      weight = weight.mul_(factor);
    } else {
      change = change.sub_(delta).mul_(weight);
    }
    grad_queries.push_back((at::matmul(change, keys) * scale).to(given.query.scalar_type()));
    grad_key.add_(at::matmul(change.transpose(3, 4), query).sum(2, /*keepdim=*/true), scale);
    grad_value.add_(at::matmul(weight.transpose(3, 4), grad).sum(2, /*keepdim=*/true));
    if (mask_gradient) some_rows(grad_mask, first, count).add_(summed_to(change, x.mask));
    first += count;
  } while (first < x.query.size(3));
  const at::ScalarType type = given.query.scalar_type();
  if (mask_gradient) grad_mask = grad_mask.to(x.mask.scalar_type()).view(options.mask->sizes());
  return {joined(grad_queries, rank), grad_key.squeeze(2).to(type), grad_value.squeeze(2).to(type),
          grad_mask};
}

}  // namespace smex::kernels
