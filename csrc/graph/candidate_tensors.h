#pragma once

// What the files that register sampling operators share.

#include <optional>

#include "graph/candidates.h"
#include "graph/tensors.h"

namespace smex::graph {

/// Weights by edge id of a tensor: bool, float or double, one element for each edge.
inline Weights weights_of(const char* op, const std::optional<at::Tensor>& weights,
                          const at::Tensor& indices) {
  if (!weights) return {};
  TORCH_CHECK_VALUE(weights->dim() == 1 && weights->size(0) == indices.size(0), "smex::", op,
                    ": weights must have one element for each of ", indices.size(0),
                    " edges, found shape ", weights->sizes());
  TORCH_CHECK_VALUE(weights->is_contiguous() && weights->device() == indices.device(), "smex::", op,
                    ": weights must be contiguous and on ", indices.device());
  switch (weights->scalar_type()) {
    case at::kBool:
      return {Weights::Kind::kMask, weights->const_data_ptr()};
    case at::kFloat:
      return {Weights::Kind::kFloat, weights->const_data_ptr()};
    case at::kDouble:
      return {Weights::Kind::kDouble, weights->const_data_ptr()};
    default:
      TORCH_CHECK_TYPE(false, "smex::", op, ": weights must be bool, float32 or float64, found ",
                       weights->scalar_type());
  }
}

/// The set of edge ids that a tensor lists.
template <typename Index>
IdSet<Index> set_of(const char* op, const std::optional<at::Tensor>& ids,
                    const at::Tensor& indices) {
  if (!ids) return {};
  check_ids(op, "excluded", *ids, indices);
  const at::Tensor listed = ids->contiguous();
  return IdSet<Index>(listed.const_data_ptr<Index>(), listed.size(0));
}

/// Edges of a form whose ids exist, so that weights can be looked up by them.
inline void check_mistake(const char* op, const Mistake& mistake, const at::Tensor& nodes,
                          const at::Tensor& indptr, const std::optional<at::Tensor>& weights) {
  check_row(op, mistake.row, nodes, indptr);
  TORCH_CHECK_VALUE(mistake.edge < 0, "smex::", op, ": the weight of edge ", mistake.edge,
                    " must be a finite number of at least 0, found ",
                    (*weights)[mistake.edge].item<double>());
}

/// Offsets as a tensor of the ids' type.
inline at::Tensor offsets_tensor(const char* op, const std::vector<int64_t>& offsets,
                                 const at::Tensor& like) {
  TORCH_CHECK_VALUE(like.scalar_type() == at::kLong || offsets.back() <= INT32_MAX, "smex::", op,
                    ": ", offsets.back(), " edges do not fit into int32; use int64 ids");
  return to_tensor(offsets, like.options()).to(like.scalar_type());
}

}  // namespace smex::graph
