// select_topk by torch's operators.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/masked_select.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <limits>

#include "edges/by_torch.h"
#include "graph/candidate_tensors.h"
#include "graph/sample/operator.h"

namespace smex::graph {
namespace {

at::Tensor stable_order(const at::Tensor& keys, bool ascending) {
  return at::argsort(keys, /*stable=*/true, /*dim=*/0, /*descending=*/!ascending);
}

/// Where the edges of each row begin, `[num_rows + 1]`.
at::Tensor begins_of(const at::Tensor& lengths) {
  const at::Tensor begins = at::zeros({lengths.size(0) + 1}, lengths.options());
  begins.slice(0, 1).copy_(lengths.cumsum(0));
  return begins;
}

Three select_topk_by_torch(const at::Tensor& indptr, const at::Tensor& indices,
                           const OptionalTensor& eids, const at::Tensor& nodes, int64_t k,
                           const at::Tensor& values, bool ascending) {
  check_topk(indptr, indices, eids, nodes, values);
  const EdgeTensors edges(indptr, indices, eids);
  const ChosenEdges read = edges_of_rows(edges, nodes);
  const at::Tensor of_edge = values.to(at::kDouble).index_select(0, eids_at(edges, read.positions));
  const at::Tensor keys =
      of_edge.masked_fill(of_edge.isnan(), -std::numeric_limits<double>::infinity());
  // By value, then by row, whose edges stay in the order of their values.
  const at::Tensor by_value = stable_order(keys, ascending);
  const at::Tensor by_row = stable_order(read.owners.index_select(0, by_value), /*ascending=*/true);
  const at::Tensor positions = read.positions.index_select(0, by_value.index_select(0, by_row));
  if (k < 0) k = std::numeric_limits<int64_t>::max();
  const at::Tensor places = at::arange(positions.size(0), positions.options());
  const at::Tensor rank = places - begins_of(read.lengths).index_select(0, read.owners);
  const at::Tensor taken = positions.masked_select(rank.lt(k));
  check_fits(kTopk, taken.size(0), indices);
  return {begins_of(read.lengths.clamp_max(k)).to(indices.scalar_type()),
          edges.indices.index_select(0, taken), eids_at(edges, taken)};
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CUDA, m) { m.impl("select_topk", select_topk_by_torch); }

}  // namespace smex::graph
