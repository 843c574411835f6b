// Attention of queries [N, H, L, E] to keys [N, G, S, E] and values [N, G, S, F], where G divides
// H. Boxes of queries and keys are computed by one fused call of ATen's where there is one for what
// is asked for, and block by block otherwise; the scores are never stored as a whole.
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <limits>
#include <optional>
#include <tuple>

namespace smex::kernels {

using OptionalTensor = std::optional<at::Tensor>;

/// Weights that are dropped after the softmax, the others scaled by 1 / (1 - p). What is drawn for
/// a weight depends on its place among all weights, which have the shape `global_shape`, and equals
/// what `smex::dropout_mask` draws there.
struct AttentionDropout {
  double p = 0;
  int64_t seed = 0, stream = 0;
  at::IntArrayRef global_shape;

  double kept() const { return p < 1 ? 1 / (1 - p) : 0; }
};

/// The sum's logarithm of a query that sees nothing.
inline constexpr double kUnseen = -std::numeric_limits<double>::infinity();

/// What one attention is told beside its tensors.
struct AttentionOptions {
  OptionalTensor mask;  ///< added to the scores; broadcasts to [N, H, L, S], or [N, H, M, L, S]
  bool causal = false;  ///< query i sees the keys up to i
  std::optional<double> scale;
  AttentionDropout dropout;

  AttentionOptions everything_visible() const { return {{}, false, scale, {}}; }

  double scale_of(const at::Tensor& query) const {
    return scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
  }
};

/// The output, as the queries, and the logarithm of the sum of each query's exponentials [N, H, L].
using AttentionResult = std::tuple<at::Tensor, at::Tensor>;
/// Of queries, keys and values, and of the mask where it is wanted.
using AttentionGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// Where a box of queries and keys lies: the lower corner of the output's tile, and the number of
/// the first key; empty for all queries, and for all keys.
struct AttentionTile {
  at::IntArrayRef offset, key_offset;

  int64_t first_query() const { return offset.empty() ? 0 : offset[offset.size() - 2]; }
  int64_t first_key() const { return key_offset.empty() ? 0 : key_offset[0]; }
  int64_t first(size_t dim) const { return offset.empty() ? 0 : offset[dim]; }
  bool may_lack_keys() const { return !key_offset.empty(); }
};

/// What the gradients are computed from.
struct AttentionTensors {
  at::Tensor grad, query, key, value, output, logsumexp;
};

/// Throws where shapes or types do not fit each other.
void check_attention(const char* op, const at::Tensor& query, const at::Tensor& key,
                     const at::Tensor& value, const AttentionOptions& options,
                     const AttentionTile& tile);

/// Throws where the gradient of a mask is wanted and there is none.
void check_mask_gradient(const OptionalTensor& mask, bool mask_gradient);

/// An uninitialised tensor that lies as ATen's calls lay their results out, with the heads of a
/// query beside each other: of the first `rank` sizes of `like`, the last of them `last` if given.
at::Tensor heads_inside(const at::Tensor& like, int64_t rank, at::ScalarType type,
                        std::optional<c10::SymInt> last = {});

// Block by block, of calls of ATen, on any device and of any type.
AttentionResult attend_by_calls(const at::Tensor& query, const at::Tensor& key,
                                const at::Tensor& value, const AttentionOptions& options,
                                const AttentionTile& tile);
AttentionGradients attend_by_calls_backward(const AttentionTensors& given,
                                            const AttentionOptions& options,
                                            const AttentionTile& tile, bool mask_gradient);

// Block by block, by kernels of the CPU.
AttentionResult attend_by_blocks(const at::Tensor& query, const at::Tensor& key,
                                 const at::Tensor& value, const AttentionOptions& options,
                                 const AttentionTile& tile);
AttentionGradients attend_by_blocks_backward(const AttentionTensors& given,
                                             const AttentionOptions& options,
                                             const AttentionTile& tile, bool mask_gradient);

}  // namespace smex::kernels
