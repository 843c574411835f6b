#pragma once

// What the files that register operators share; the rest of the folder includes no torch header.

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <optional>
#include <vector>

#include "graph/select.h"
#include "graph/workers.h"

namespace smex::graph {

/// torch's threads.
inline Workers torch_workers() {
  return {.count = at::in_parallel_region() ? 1 : at::get_num_threads(),
          .run = [](int64_t count, const Workers::Task& task) {
            at::parallel_for(0, count, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
              for (int64_t i = begin; i < end; ++i) task(i);
            });
          }};
}

/// Calls `body(Index{})` with the type of `ids`.
template <typename Body>
auto dispatch_index(const at::Tensor& ids, const Body& body) {
  return ids.scalar_type() == at::kInt ? body(int32_t{}) : body(int64_t{});
}

/// The argument `name` is a vector of `like`'s type and device, which is int32 or int64.
inline void check_ids(const char* op, const char* name, const at::Tensor& ids,
                      const at::Tensor& like) {
  TORCH_CHECK_TYPE(ids.scalar_type() == at::kInt || ids.scalar_type() == at::kLong, "smex::", op,
                   ": ", name, " must be int32 or int64, found ", ids.scalar_type());
  TORCH_CHECK_TYPE(ids.scalar_type() == like.scalar_type(), "smex::", op, ": ", name, " must be ",
                   like.scalar_type(), " as the other ids, found ", ids.scalar_type());
  TORCH_CHECK_VALUE(ids.dim() == 1, "smex::", op, ": ", name, " must be a vector, found shape ",
                    ids.sym_sizes());
  TORCH_CHECK_VALUE(ids.device() == like.device(), "smex::", op, ": ", name, " must be on ",
                    like.device(), ", found ", ids.device());
}

/// Checks a compressed form and gives each edge tensor one length.
inline void check_rows(const char* op, const at::Tensor& indptr, const at::Tensor& indices,
                       const std::optional<at::Tensor>& eids) {
  check_ids(op, "indices", indices, indices);
  check_ids(op, "indptr", indptr, indices);
  TORCH_CHECK_VALUE(indptr.sym_size(0) >= 1, "smex::", op,
                    ": indptr must have one element more than there are rows, found none");
  if (!eids) return;
  check_ids(op, "eids", *eids, indices);
  TORCH_CHECK_VALUE(eids->sym_size(0) == indices.sym_size(0), "smex::", op, ": eids must have ",
                    indices.sym_size(0), " elements as indices, found ", eids->sym_size(0));
}

/// Contiguous tensors of a compressed form, and their pointers.
struct RowTensors {
  at::Tensor indptr;
  at::Tensor indices;
  std::optional<at::Tensor> eids;

  RowTensors(const char* op, const at::Tensor& indptr, const at::Tensor& indices,
             const std::optional<at::Tensor>& eids)
      : indptr(indptr.contiguous()), indices(indices.contiguous()) {
    check_rows(op, indptr, indices, eids);
    if (eids) this->eids = eids->contiguous();
  }

  template <typename Index>
  Rows<Index> rows() const {
    return {indptr.const_data_ptr<Index>(), indices.const_data_ptr<Index>(),
            eids ? eids->const_data_ptr<Index>() : nullptr, indptr.size(0) - 1, indices.size(0)};
  }
};

/// A vector that is not initialised.
inline at::Tensor empty_ids(int64_t size, const at::Tensor& like) {
  return at::empty({size}, like.options());
}

/// A tensor with a copy of `values`.
template <typename Index>
at::Tensor to_tensor(const std::vector<Index>& values, const at::TensorOptions& options) {
  const at::Tensor result = at::empty({static_cast<int64_t>(values.size())},
                                      options.dtype(c10::CppTypeToScalarType<Index>::value));
  std::copy(values.begin(), values.end(), result.mutable_data_ptr<Index>());
  return result;
}

/// `indptr` describes the edges, or an error.
inline void check_indptr(const char* op, bool valid, int64_t num_edges) {
  TORCH_CHECK_VALUE(valid, "smex::", op, ": indptr must ascend from 0 to the number of edges, ",
                    num_edges);
}

/// Names the first row that was asked for and does not exist, or whose bounds are wrong.
inline void check_row(const char* op, int64_t invalid, const at::Tensor& rows,
                      const at::Tensor& indptr) {
  TORCH_CHECK_VALUE(invalid < 0, "smex::", op, ": row ", rows[invalid].item<int64_t>(),
                    " at position ", invalid, " is not in [0, ", indptr.size(0) - 1,
                    "), or indptr and indices do not fit together");
}

}  // namespace smex::graph
