// Attention of queries [N, H, L, E] to keys and values [N, G, S, E], where G divides H, as one
// fused call of ATen's for each box of queries and keys.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace smex::kernels {

using OptionalTensor = std::optional<at::Tensor>;

/// What one attention is told beside its tensors.
struct AttentionOptions {
  OptionalTensor mask;  ///< added to the scores; broadcasts to [N, H, L, S], or [N, H, M, L, S]
  bool causal = false;  ///< query i sees the keys up to i
  std::optional<double> scale;

  AttentionOptions everything_visible() const { return {{}, false, scale}; }
};

/// The output, as the queries, and the logarithm of the sum of each query's exponentials [N, H, L].
using AttentionResult = std::tuple<at::Tensor, at::Tensor>;
/// Of queries, keys and values.
using AttentionGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// Where a box of queries and keys lies: the lower corner of the output's tile, and the number of
/// the first key; empty for all queries, and for all keys.
struct AttentionTile {
  at::IntArrayRef offset, key_offset;

  int64_t first_query() const { return offset.empty() ? 0 : offset[offset.size() - 2]; }
  int64_t first_key() const { return key_offset.empty() ? 0 : key_offset[0]; }
  bool may_lack_keys() const { return !key_offset.empty(); }
};

/// Throws where shapes or types do not fit each other.
void check_attention(const char* op, const at::Tensor& query, const at::Tensor& key,
                     const at::Tensor& value, const AttentionOptions& options,
                     const AttentionTile& tile);

}  // namespace smex::kernels
