// By torch's operators.
#include <ATen/TensorOperators.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/masked_select.h>
#include <torch/library.h>

#include "edges/by_torch.h"
#include "graph/select/operator.h"

namespace smex::graph {
namespace {

Three take_rows_by_torch(const at::Tensor& indptr, const at::Tensor& indices,
                         const OptionalTensor& eids, const at::Tensor& rows) {
  check_rows(kTakeRows, indptr, indices, eids);
  check_ids(kTakeRows, "rows", rows, indices);
  const EdgeTensors edges(indptr, indices, eids);
  const ChosenEdges taken = edges_of_rows(edges, rows);
  return {edges.indices.index_select(0, taken.positions), rows.index_select(0, taken.owners),
          eids_at(edges, taken.positions)};
}

Three induced_edges_by_torch(const at::Tensor& indptr, const at::Tensor& indices,
                             const OptionalTensor& eids, const at::Tensor& rows,
                             const at::Tensor& names) {
  check_rows(kInduced, indptr, indices, eids);
  check_ids(kInduced, "rows", rows, indices);
  check_ids(kInduced, "names", names, indices);
  const EdgeTensors edges(indptr, indices, eids);
  const ChosenEdges read = edges_of_rows(edges, rows);
  const at::Tensor columns = edges.indices.index_select(0, read.positions);
  const at::Tensor named = names.index_select(0, columns);
  const at::Tensor is_kept = named.ge(0);
  return {read.owners.masked_select(is_kept).to(indices.scalar_type()),
          named.masked_select(is_kept), eids_at(edges, read.positions.masked_select(is_kept))};
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CUDA, m) {
  m.impl("induced_edges", induced_edges_by_torch);
  m.impl("take_rows", take_rows_by_torch);
}

}  // namespace smex::graph
