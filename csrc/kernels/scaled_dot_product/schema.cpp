// Scaled dot-product attention that can be told which queries and keys it is given: ATen's fused
// calls count both from 0, and so cannot compute a tile of causal attention. What is dropped of the
// weights is drawn by place.
#include <ATen/OpMathType.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "kernels/scaled_dot_product/operator.h"

namespace smex::kernels {

void check_attention(const char* op, const at::Tensor& query, const at::Tensor& key,
                     const at::Tensor& value, const AttentionOptions& options,
                     const AttentionTile& tile) {
  const int64_t rank = query.dim();
  TORCH_CHECK_VALUE((rank == 4 || rank == 5) && key.dim() == 4 && value.dim() == 4, op,
                    ": expected queries [N, H, L, E] or [N, H, M, L, E] and keys and values "
                    "[N, H, S, E], found ",
                    query.sym_sizes(), ", ", key.sym_sizes(), " and ", value.sym_sizes());
  TORCH_CHECK_VALUE(key.sym_sizes().slice(0, 3) == value.sym_sizes().slice(0, 3), op,
                    ": expected keys and values of one shape but for the last size, found ",
                    key.sym_sizes(), " and ", value.sym_sizes());
  TORCH_CHECK_VALUE(query.sym_size(0) == key.sym_size(0) && query.sym_size(1) == key.sym_size(1) &&
                        query.sym_size(rank - 1) == key.sym_size(3),
                    op, ": expected the batch, the heads and the last size of the queries ",
                    query.sym_sizes(), " in the keys, found ", key.sym_sizes());
  TORCH_CHECK_TYPE(query.is_floating_point() && key.scalar_type() == query.scalar_type() &&
                       value.scalar_type() == query.scalar_type(),
                   op, ": expected one floating type, found ", query.scalar_type(), ", ",
                   key.scalar_type(), " and ", value.scalar_type());
  TORCH_CHECK_VALUE(!options.causal || !options.mask, op,
                    ": causal attention takes no mask as well; add -inf to the mask instead");
  TORCH_CHECK_VALUE(
      tile.offset.empty() || std::ssize(tile.offset) == rank, op,
      ": offset is empty, or where the queries begin in all dimensions, of which there "
      "are ",
      rank, ", found ", tile.offset);
  TORCH_CHECK_VALUE(tile.key_offset.size() <= 1, op,
                    ": key_offset is empty, or the number of the first key, found ",
                    tile.key_offset);
  const AttentionDropout& dropout = options.dropout;
  TORCH_CHECK_VALUE(dropout.p >= 0 && dropout.p <= 1, op, ": p must be in [0, 1], found ",
                    dropout.p);
  TORCH_CHECK_VALUE(dropout.p == 0 || std::ssize(dropout.global_shape) == rank, op,
                    ": global_shape is that of all weights, with ", rank, " sizes, found ",
                    dropout.global_shape);
}

void check_mask_gradient(const OptionalTensor& mask, bool mask_gradient) {
  TORCH_CHECK_VALUE(mask || !mask_gradient,
                    "smex::scaled_dot_product_backward: there is no mask to have a gradient");
}

at::Tensor heads_inside(const at::Tensor& like, int64_t rank, at::ScalarType type,
                        std::optional<c10::SymInt> last) {
  at::SymDimVector shape(like.sym_sizes().slice(0, rank));
  if (last) shape.back() = *last;
  const bool grouped = like.dim() == 5;
  const int64_t length = grouped ? 3 : 2;
  at::SymDimVector laid = shape;
  for (int64_t d = length; d > 1; --d) std::swap(laid[d], laid[d - 1]);
  const at::Tensor made = at::empty_symint(laid, like.options().dtype(type));
  return grouped ? made.permute(rank == 5 ? at::IntArrayRef{0, 2, 3, 1, 4}
                                          : at::IntArrayRef{0, 2, 3, 1})
                 : made.transpose(1, 2);
}

namespace {

AttentionResult scaled_dot_product_meta(const at::Tensor& query, const at::Tensor& key,
                                        const at::Tensor& value, const OptionalTensor& mask,
                                        bool causal, std::optional<double> scale,
                                        at::IntArrayRef offset, at::IntArrayRef key_offset,
                                        double p, int64_t seed, int64_t stream,
                                        at::IntArrayRef global_shape) {
  check_attention("smex::scaled_dot_product", query, key, value,
                  {mask, causal, scale, {p, seed, stream, global_shape}}, {offset, key_offset});
  return {heads_inside(query, query.dim(), query.scalar_type(), value.sym_size(3)),
          heads_inside(query, query.dim() - 1, at::toOpMathType(query.scalar_type()))};
}

AttentionGradients scaled_dot_product_backward_meta(
    const at::Tensor& /*grad*/, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& /*output*/, const at::Tensor& /*logsumexp*/,
    const OptionalTensor& mask, bool causal, std::optional<double> scale, at::IntArrayRef offset,
    at::IntArrayRef key_offset, double p, int64_t seed, int64_t stream,
    at::IntArrayRef global_shape, bool mask_gradient) {
  check_attention("smex::scaled_dot_product_backward", query, key, value,
                  {mask, causal, scale, {p, seed, stream, global_shape}}, {offset, key_offset});
  check_mask_gradient(mask, mask_gradient);
  return {heads_inside(query, query.dim(), query.scalar_type()),
          heads_inside(key, 4, key.scalar_type()), heads_inside(value, 4, value.scalar_type()),
          mask_gradient ? at::empty_symint(mask->sym_sizes(), mask->options()) : at::Tensor()};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "scaled_dot_product(Tensor query, Tensor key, Tensor value, Tensor? mask, bool causal, "
      "float? scale, int[] offset, int[] key_offset=[], float p=0., int seed=0, int stream=0, "
      "int[] global_shape=[]) -> (Tensor output, Tensor logsumexp)");
  m.def(
      "scaled_dot_product_backward(Tensor grad, Tensor query, Tensor key, Tensor value, "
      "Tensor output, Tensor logsumexp, Tensor? mask, bool causal, float? scale, int[] offset, "
      "int[] key_offset=[], float p=0., int seed=0, int stream=0, int[] global_shape=[], "
      "bool mask_gradient=False) "
      "-> (Tensor grad_query, Tensor grad_key, Tensor grad_value, Tensor grad_mask)");
  m.def("weigh_part(Tensor part, Tensor part_logsumexp, Tensor logsumexp) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("scaled_dot_product", scaled_dot_product_meta);
  m.impl("scaled_dot_product_backward", scaled_dot_product_backward_meta);
}

}  // namespace smex::kernels
