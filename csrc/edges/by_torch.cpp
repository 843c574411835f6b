#include "edges/by_torch.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/repeat_interleave.h>

namespace smex {

at::Tensor rows_of_positions(const EdgeTensors& edges) {
  const at::Tensor rows = at::arange(edges.num_rows(), edges.indptr.options());
  return at::repeat_interleave(rows, edges.indptr.diff(), /*dim=*/0, edges.num_edges());
}

ChosenEdges edges_of_rows(const EdgeTensors& edges, const at::Tensor& rows) {
  const at::Tensor begins = edges.indptr.index_select(0, rows).to(at::kLong);
  const at::Tensor lengths = edges.indptr.index_select(0, rows + 1) - begins;
  const at::Tensor owners = at::repeat_interleave(lengths);
  // What has to be added to an edge's place in the result.
  const at::Tensor shift = begins - (lengths.cumsum(0) - lengths);
  const at::Tensor places = at::arange(owners.size(0), owners.options());
  return {places + shift.index_select(0, owners), owners, lengths};
}

at::Tensor eids_at(const EdgeTensors& edges, const at::Tensor& positions) {
  if (edges.eids.defined()) return edges.eids.index_select(0, positions);
  return positions.to(edges.indices.scalar_type());
}

}  // namespace smex
