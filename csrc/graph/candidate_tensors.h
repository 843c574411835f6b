#pragma once

// What the files that register sampling operators share.

#include <optional>

#include "edges/tensors.h"
#include "graph/candidates.h"

namespace smex::graph {

/// Weights of edges by their ids are bool, float or double, one element for each edge.
inline void check_weights(const char* op, const std::optional<at::Tensor>& weights,
                          const at::Tensor& indices) {
  if (!weights) return;
  TORCH_CHECK_VALUE(weights->dim() == 1 && weights->sym_size(0) == indices.sym_size(0), op,
                    ": weights must have one element for each of ", indices.sym_size(0),
                    " edges, found shape ", weights->sym_sizes());
  TORCH_CHECK_VALUE(weights->is_contiguous() && weights->device() == indices.device(), op,
                    ": weights must be contiguous and on ", indices.device());
  const auto type = weights->scalar_type();
  TORCH_CHECK_TYPE(type == at::kBool || type == at::kFloat || type == at::kDouble, op,
                   ": weights must be bool, float32 or float64, found ", type);
}

/// Weights that have been checked.
inline Weights weights_of(const std::optional<at::Tensor>& checked) {
  if (!checked) return {};
  const auto type = checked->scalar_type();
  return {type == at::kBool    ? Weights::Kind::kMask
          : type == at::kFloat ? Weights::Kind::kFloat
                               : Weights::Kind::kDouble,
          checked->const_data_ptr()};
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
  TORCH_CHECK_VALUE(mistake.edge < 0, op, ": the weight of edge ", mistake.edge,
                    " must be a finite number of at least 0, found ",
                    (*weights)[mistake.edge].item<double>());
}

/// So many edges have offsets of the ids' type.
inline void check_fits(const char* op, int64_t num_edges, const at::Tensor& like) {
  TORCH_CHECK_VALUE(like.scalar_type() == at::kLong || num_edges <= INT32_MAX, op, ": ", num_edges,
                    " edges do not fit into int32; use int64 ids");
}

/// Offsets as a tensor of the ids' type.
inline at::Tensor offsets_tensor(const char* op, const std::vector<int64_t>& offsets,
                                 const at::Tensor& like) {
  check_fits(op, offsets.back(), like);
  return to_tensor(offsets, like.options()).to(like.scalar_type());
}

}  // namespace smex::graph
