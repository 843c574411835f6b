// smex::typed_spmm, typed_sddmm and typed_outer: messages that are multiplied by the matrix of
// their edge's type. All three are derivatives of one number that is linear in four tensors,
//
//   T = Σ_e Σ_b factor[e, b] · x[u, b] weight[t, b] y[v, b]   (u → v the ends of edge e, t its
//   type)
//
// by y, by factor and by weight. The derivative by x is the first on reversed edges, so that the
// gradients of each are others of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "edges/tensors.h"

namespace smex::kernels {

constexpr const char* kTypedSpmm = "smex::typed_spmm";
constexpr const char* kTypedSddmm = "smex::typed_sddmm";
constexpr const char* kTypedOuter = "smex::typed_outer";

/// By the edge's number `[edges, blocks]` or `[edges, 1]`; 1 where there is none.
using Factor = std::optional<at::Tensor>;

/// Returns `[rows, blocks, n]`, where x is `[sources, blocks, k]`, weight `[types, blocks, k, n]`
/// and types int64 `[edges]`, by the edge's number.
at::Tensor call_typed_spmm(at::TensorList in_edges, at::TensorList out_edges, const at::Tensor& x,
                           const at::Tensor& weight, const at::Tensor& types, const Factor& factor);

/// Returns `[edges, blocks]`, by the edge's number, where y is `[rows, blocks, n]`.
at::Tensor call_typed_sddmm(at::TensorList in_edges, at::TensorList out_edges, const at::Tensor& x,
                            const at::Tensor& weight, const at::Tensor& y, const at::Tensor& types);

/// Returns `[num_types, blocks, k, n]`.
at::Tensor call_typed_outer(at::TensorList in_edges, at::TensorList out_edges, const at::Tensor& x,
                            const at::Tensor& y, const at::Tensor& types, const Factor& factor,
                            c10::SymInt num_types);

constexpr const char* kGatherMm = "smex::gather_mm";
constexpr const char* kGatherOuter = "smex::gather_outer";

/// Returns `[rows, n]`: row i of a `[rows, k]` times the matrix `index[i]` of b `[matrices, k, n]`.
at::Tensor call_gather_mm(const at::Tensor& a, const at::Tensor& b, const at::Tensor& index);

/// Its derivative by b, `[num_matrices, k, n]`, where g is `[rows, n]`.
at::Tensor call_gather_outer(const at::Tensor& a, const at::Tensor& g, const at::Tensor& index,
                             c10::SymInt num_matrices);

/// The arguments of a call, those undefined that it does not have; they are checked.
struct TypedCall {
  const char* op;
  at::TensorList in_edges;
  at::Tensor x, weight, y, types, factor;
};
void check_typed(const TypedCall& call);

}  // namespace smex::kernels
