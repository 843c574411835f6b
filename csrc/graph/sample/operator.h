// What the files that register these operators share.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "edges/tensors.h"

namespace smex::graph {

using OptionalTensor = std::optional<at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

constexpr const char* kSample = "smex::sample_neighbors";
constexpr const char* kTopk = "smex::select_topk";

inline void check_topk(const at::Tensor& indptr, const at::Tensor& indices,
                       const OptionalTensor& eids, const at::Tensor& nodes,
                       const at::Tensor& values) {
  check_rows(kTopk, indptr, indices, eids);
  check_ids(kTopk, "nodes", nodes, indices);
  TORCH_CHECK_VALUE(values.dim() == 1 && values.size(0) == indices.size(0), kTopk,
                    ": values must have one element for each of ", indices.size(0),
                    " edges, found shape ", values.sizes());
}

}  // namespace smex::graph
