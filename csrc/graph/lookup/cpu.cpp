#include <torch/library.h>

#include "edges/parallel.h"
#include "graph/compress/compress.h"
#include "graph/lookup/lookup.h"
#include "graph/lookup/operator.h"

namespace smex::graph {
namespace {

at::Tensor find_scan_on_cpu(const at::Tensor& indptr, const at::Tensor& indices,
                            const OptionalTensor& eids, const at::Tensor& rows,
                            const at::Tensor& columns) {
  const at::Tensor result = find_scan_meta(indptr, indices, eids, rows, columns);
  const EdgeTensors tensors(indptr, indices, eids);
  const at::Tensor row = rows.contiguous(), column = columns.contiguous();
  dispatch_index(indices, [&]<typename Index>(Index) {
    const int64_t invalid = find_scan(tensors.rows<Index>(), row.const_data_ptr<Index>(),
                                      column.const_data_ptr<Index>(), row.size(0),
                                      result.mutable_data_ptr<Index>(), torch_workers());
    check_row(kFindScan, invalid, row, indptr);
  });
  return result;
}

Two find_sorted_on_cpu(const at::Tensor& indptr, const at::Tensor& indices, const at::Tensor& rows,
                       const at::Tensor& columns) {
  const Two result = find_sorted_meta(indptr, indices, rows, columns);
  const EdgeTensors tensors(indptr, indices, std::nullopt);
  const at::Tensor row = rows.contiguous(), column = columns.contiguous();
  dispatch_index(indices, [&]<typename Index>(Index) {
    const int64_t invalid = find_sorted(
        tensors.rows<Index>(), row.const_data_ptr<Index>(), column.const_data_ptr<Index>(),
        row.size(0), std::get<0>(result).mutable_data_ptr<Index>(),
        std::get<1>(result).mutable_data_ptr<Index>(), torch_workers());
    check_row(kFindSorted, invalid, row, indptr);
  });
  return result;
}

template <typename Index>
void check_all_rows(const char* op, const EdgeRows<Index>& rows) {
  check_indptr(op, is_indptr(rows.indptr, rows.num_rows, rows.num_edges), rows.num_edges);
}

bool has_parallel_on_cpu(const at::Tensor& indptr, const at::Tensor& indices) {
  check_rows(kHasParallel, indptr, indices, std::nullopt);
  const EdgeTensors tensors(indptr, indices, std::nullopt);
  return dispatch_index(indices, [&]<typename Index>(Index) {
    const EdgeRows<Index> rows = tensors.rows<Index>();
    check_all_rows(kHasParallel, rows);
    return has_parallel(rows, torch_workers());
  });
}

Four merge_parallel_on_cpu(const at::Tensor& indptr, const at::Tensor& indices,
                           const OptionalTensor& eids) {
  check_rows(kMergeParallel, indptr, indices, eids);
  const EdgeTensors tensors(indptr, indices, eids);
  return dispatch_index(indices, [&]<typename Index>(Index) -> Four {
    const EdgeRows<Index> rows = tensors.rows<Index>();
    check_all_rows(kMergeParallel, rows);
    const at::Tensor groups = empty_ids(rows.num_edges, indices);
    const int64_t size = number_pairs(rows, groups.mutable_data_ptr<Index>());
    TORCH_CHECK_VALUE(size >= 0, kMergeParallel, ": eids must be in [0, ", rows.num_edges, ")");
    const at::Tensor pair_rows = empty_ids(size, indices), columns = empty_ids(size, indices);
    const at::Tensor counts = empty_ids(size, indices);
    list_pairs(rows, pair_rows.mutable_data_ptr<Index>(), columns.mutable_data_ptr<Index>(),
               counts.mutable_data_ptr<Index>());
    return {pair_rows, columns, counts, groups};
  });
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("find_scan", find_scan_on_cpu);
  m.impl("find_sorted", find_sorted_on_cpu);
  m.impl("has_parallel", has_parallel_on_cpu);
  m.impl("merge_parallel", merge_parallel_on_cpu);
}

}  // namespace smex::graph
