// find_sorted has a kernel; the others are torch's operators.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/masked_select.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include <limits>

#include "edges/by_torch.h"
#include "graph/cuda/work.h"
#include "graph/lookup/cuda/lookup.h"
#include "graph/lookup/operator.h"

namespace smex::graph {
namespace {

Two find_sorted_on_cuda(const at::Tensor& indptr, const at::Tensor& indices, const at::Tensor& rows,
                        const at::Tensor& columns) {
  const c10::cuda::CUDAGuard guard(indices.device());
  const Two result = find_sorted_meta(indptr, indices, rows, columns);
  const EdgeTensors tensors(indptr, indices, std::nullopt);
  const at::Tensor row = rows.contiguous(), column = columns.contiguous();
  dispatch_index(indices, [&]<typename Index>(Index) {
    DeviceWork work(indices);
    find_sorted_cuda(tensors.rows<Index>(), row.const_data_ptr<Index>(),
                     column.const_data_ptr<Index>(), row.size(0),
                     std::get<0>(result).mutable_data_ptr<Index>(),
                     std::get<1>(result).mutable_data_ptr<Index>(), work.first(), work.stream());
    const int64_t invalid = work.first_or_end();
    check_row(kFindSorted, invalid == row.size(0) ? -1 : invalid, row, indptr);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return result;
}

at::Tensor find_scan_by_torch(const at::Tensor& indptr, const at::Tensor& indices,
                              const OptionalTensor& eids, const at::Tensor& rows,
                              const at::Tensor& columns) {
  const at::Tensor like = find_scan_meta(indptr, indices, eids, rows, columns);
  const EdgeTensors edges(indptr, indices, eids);
  const ChosenEdges read = edges_of_rows(edges, rows);
  const at::Tensor is_found =
      edges.indices.index_select(0, read.positions).eq(columns.index_select(0, read.owners));
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  const at::Tensor least = at::full({rows.size(0)}, kNone, read.owners.options());
  const at::Tensor found = eids_at(edges, read.positions.masked_select(is_found)).to(at::kLong);
  least.scatter_reduce_(0, read.owners.masked_select(is_found), found, "amin");
  return least.masked_fill(least.eq(kNone), -1).to(like.scalar_type());
}

/// Whether the edge of a position is the first of its pair; columns ascend.
at::Tensor is_first_of_pair(const EdgeTensors& edges, const at::Tensor& rows) {
  const at::Tensor differs = rows.diff().ne(0).logical_or_(edges.indices.diff().ne(0));
  const int64_t first = edges.num_edges() > 0 ? 1 : 0;
  return at::cat({at::full({first}, true, differs.options()), differs});
}

bool has_parallel_by_torch(const at::Tensor& indptr, const at::Tensor& indices) {
  check_rows(kHasParallel, indptr, indices, std::nullopt);
  const EdgeTensors edges(indptr, indices, std::nullopt);
  return !is_first_of_pair(edges, rows_of_positions(edges)).all().item<bool>();
}

Four merge_parallel_by_torch(const at::Tensor& indptr, const at::Tensor& indices,
                             const OptionalTensor& eids) {
  check_rows(kMergeParallel, indptr, indices, eids);
  const EdgeTensors edges(indptr, indices, eids);
  const at::Tensor rows = rows_of_positions(edges);
  const at::Tensor is_first = is_first_of_pair(edges, rows);
  const at::Tensor firsts = is_first.nonzero().squeeze(1);
  const at::Tensor end = at::full({1}, edges.num_edges(), firsts.options());
  const at::Tensor counts = at::cat({firsts, end}).diff().to(indices.scalar_type());
  const at::Tensor groups = is_first.cumsum(0, indices.scalar_type()) - 1;
  if (!edges.eids.defined())
    return {rows.index_select(0, firsts), edges.indices.index_select(0, firsts), counts, groups};
  const at::Tensor by_edge =
      at::empty_like(groups).index_copy_(0, edges.eids.to(at::kLong), groups);
  return {rows.index_select(0, firsts), edges.indices.index_select(0, firsts), counts, by_edge};
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CUDA, m) {
  m.impl("find_scan", find_scan_by_torch);
  m.impl("find_sorted", find_sorted_on_cuda);
  m.impl("has_parallel", has_parallel_by_torch);
  m.impl("merge_parallel", merge_parallel_by_torch);
}

}  // namespace smex::graph
