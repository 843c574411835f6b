#include <torch/library.h>

#include "edges/parallel.h"
#include "graph/compress/operator.h"
#include "kernels/cpu/large_pages.h"

namespace smex::graph {
namespace {

template <typename Index>
void check_first(const EdgeList<Index>& edges, int64_t invalid) {
  if (invalid < 0) return;
  const auto inside = [](Index id, int64_t size) { return id >= 0 && id < size; };
  const Index row = edges.rows[invalid], column = edges.columns[invalid];
  TORCH_CHECK_VALUE(inside(row, edges.num_rows), kCompress, ": rows[", invalid, "] is ", row,
                    ", expected an id in [0, ", edges.num_rows, ")");
  TORCH_CHECK_VALUE(inside(column, edges.num_columns), kCompress, ": columns[", invalid, "] is ",
                    column, ", expected an id in [0, ", edges.num_columns, ")");
  TORCH_CHECK_VALUE(false, kCompress, ": eids[", invalid, "] is ", edges.ids[invalid],
                    ", expected an id in [0, ", edges.num_edges, ")");
}

Three compress_on_cpu(const at::Tensor& rows, const at::Tensor& columns, const OptionalTensor& eids,
                      int64_t num_rows, int64_t num_columns) {
  const Three result = compress_meta(rows, columns, eids, num_rows, num_columns);
  kernels::ask_for_large_pages(std::get<1>(result));
  kernels::ask_for_large_pages(std::get<2>(result));
  const ListTensors tensors(rows, columns, eids);
  dispatch_index(rows, [&]<typename Index>(Index) {
    const auto edges = tensors.list<Index>(num_rows, num_columns);
    check_first(edges, compress_cpu(edges, compressed_edges<Index>(result), torch_workers()));
  });
  return result;
}

at::Tensor count_on_cpu(const at::Tensor& ids, int64_t size) {
  const at::Tensor result = count_meta(ids, size);
  const at::Tensor dense = ids.contiguous();
  dispatch_index(ids, [&]<typename Index>(Index) {
    const Index* const from = dense.const_data_ptr<Index>();
    const int64_t invalid =
        count_cpu(from, dense.size(0), size, result.mutable_data_ptr<Index>(), torch_workers());
    TORCH_CHECK_VALUE(invalid < 0, kCount, ": ids[", invalid, "] is ", from[invalid],
                      ", expected an id in [0, ", size, ")");
  });
  return result;
}

Two expand_on_cpu(const at::Tensor& indptr, const at::Tensor& indices, const OptionalTensor& eids) {
  const Two result = expand_meta(indptr, indices, eids);
  const EdgeTensors tensors(indptr, indices, eids);
  dispatch_index(indices, [&]<typename Index>(Index) {
    const EdgeRows<Index> from = tensors.rows<Index>();
    check_indptr(kExpand, is_indptr(from.indptr, from.num_rows, from.num_edges), from.num_edges);
    const int64_t invalid =
        expand_cpu(from.indptr, from.indices, from.eids, from.num_rows, from.num_edges,
                   std::get<0>(result).mutable_data_ptr<Index>(),
                   std::get<1>(result).mutable_data_ptr<Index>(), torch_workers());
    TORCH_CHECK_VALUE(invalid < 0, kExpand, ": eids[", invalid, "] is not in [0, ", from.num_edges,
                      ")");
  });
  return result;
}

at::Tensor expand_rows_on_cpu(const at::Tensor& indptr, int64_t num_edges) {
  const at::Tensor rows = expand_rows_meta(indptr, num_edges);
  const at::Tensor bounds = indptr.contiguous();
  dispatch_index(indptr, [&]<typename Index>(Index) {
    const Index* const from = bounds.const_data_ptr<Index>();
    const int64_t num_rows = bounds.size(0) - 1;
    check_indptr(kExpandRows, is_indptr(from, num_rows, num_edges), num_edges);
    expand_cpu<Index>(from, nullptr, nullptr, num_rows, num_edges, rows.mutable_data_ptr<Index>(),
                      nullptr, torch_workers());
  });
  return rows;
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("compress_edges", compress_on_cpu);
  m.impl("count_ids", count_on_cpu);
  m.impl("expand_edges", expand_on_cpu);
  m.impl("expand_rows", expand_rows_on_cpu);
}

}  // namespace smex::graph
