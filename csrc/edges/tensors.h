// Edges as the tensors of an operator's call. An operator calls one of the checks once and then
// reads; `op` is its name with the namespace, for errors.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "edges/dispatch.h"
#include "edges/rows.h"

namespace smex {

/// The dense tensors of one compressed direction, of which the types and shapes have been checked.
struct EdgeTensors {
  at::Tensor indptr, indices, eids;  // eids is undefined where it is the identity

  /// From `[indptr, indices]` or `[indptr, indices, eids]`.
  explicit EdgeTensors(at::TensorList checked);
  EdgeTensors(const at::Tensor& indptr, const at::Tensor& indices,
              const std::optional<at::Tensor>& eids);

  int64_t num_rows() const { return indptr.size(0) - 1; }
  int64_t num_edges() const { return indices.size(0); }

  template <typename I>
  EdgeRows<I> rows() const {
    return {num_rows(), num_edges(), indptr.const_data_ptr<I>(), indices.const_data_ptr<I>(),
            eids.defined() ? eids.const_data_ptr<I>() : nullptr};
  }
};

/// Whether a list has edges, of which there are two tensors or three: one alone stands for none,
/// as AOTInductor calls an operator with None in place of an empty list.
inline bool are_given(at::TensorList edges) { return edges.size() > 1; }

/// Checks the tensors of a list of edges: number, types, shapes and devices.
void check_edges(const char* op, at::TensorList tensors);

/// The same of edges that are arguments of their own.
void check_rows(const char* op, const at::Tensor& indptr, const at::Tensor& indices,
                const std::optional<at::Tensor>& eids);

/// The argument `name` is a vector of `like`'s type and device, which is int32 or int64.
void check_ids(const char* op, const char* name, const at::Tensor& ids, const at::Tensor& like);

/// `indptr` describes the edges, or an error.
void check_indptr(const char* op, bool valid, int64_t num_edges);

/// Names the row at the place `invalid` of those that were asked for, which does not exist or whose
/// bounds are wrong; -1: there is none.
void check_row(const char* op, int64_t invalid, const at::Tensor& rows, const at::Tensor& indptr);

/// A vector that is not initialised.
inline at::Tensor empty_ids(int64_t size, const at::Tensor& like) {
  return at::empty({size}, like.options());
}

/// A tensor with a copy of `values`.
template <typename T>
at::Tensor to_tensor(const std::vector<T>& values, const at::TensorOptions& options) {
  const at::Tensor result = at::empty({static_cast<int64_t>(values.size())},
                                      options.dtype(c10::CppTypeToScalarType<T>::value));
  std::copy(values.begin(), values.end(), result.mutable_data_ptr<T>());
  return result;
}

}  // namespace smex
