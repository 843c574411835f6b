#include "graph/compress.h"

#include <torch/library.h>

#include <tuple>

#include "graph/tensors.h"
#include "kernels/cpu/large_pages.h"

#ifdef SMEX_WITH_CUDA
#include "graph/cuda/tensors.h"
#endif

namespace smex::graph {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;

void check_edges(const at::Tensor& rows, const at::Tensor& columns, const OptionalTensor& eids) {
  check_ids("compress_edges", "rows", rows, rows);
  check_ids("compress_edges", "columns", columns, rows);
  TORCH_CHECK_VALUE(columns.sym_size(0) == rows.sym_size(0),
                    "smex::compress_edges: rows and columns must have one length, found ",
                    rows.sym_size(0), " and ", columns.sym_size(0));
  if (!eids) return;
  check_ids("compress_edges", "eids", *eids, rows);
  TORCH_CHECK_VALUE(eids->sym_size(0) == rows.sym_size(0), "smex::compress_edges: eids must have ",
                    rows.sym_size(0), " elements, found ", eids->sym_size(0));
}

Three compress_meta(const at::Tensor& rows, const at::Tensor& columns, const OptionalTensor& eids,
                    c10::SymInt num_rows, c10::SymInt num_columns) {
  check_edges(rows, columns, eids);
  TORCH_CHECK_VALUE(
      num_rows >= 0 && num_columns >= 0,
      "smex::compress_edges: numbers of rows and columns must not be negative, found ", num_rows,
      " and ", num_columns);
  const auto edges = [&] { return at::empty_symint({rows.sym_size(0)}, rows.options()); };
  return {at::empty_symint({num_rows + 1}, rows.options()), edges(), edges()};
}

template <typename Index>
void check_first(const EdgeList<Index>& edges, int64_t invalid) {
  if (invalid < 0) return;
  const auto inside = [](Index id, int64_t size) { return id >= 0 && id < size; };
  const Index row = edges.rows[invalid], column = edges.columns[invalid];
  TORCH_CHECK_VALUE(inside(row, edges.num_rows), "smex::compress_edges: rows[", invalid, "] is ",
                    row, ", expected an id in [0, ", edges.num_rows, ")");
  TORCH_CHECK_VALUE(inside(column, edges.num_columns), "smex::compress_edges: columns[", invalid,
                    "] is ", column, ", expected an id in [0, ", edges.num_columns, ")");
  TORCH_CHECK_VALUE(false, "smex::compress_edges: eids[", invalid, "] is ", edges.ids[invalid],
                    ", expected an id in [0, ", edges.num_edges, ")");
}

Three compress_on_cpu(const at::Tensor& rows, const at::Tensor& columns, const OptionalTensor& eids,
                      int64_t num_rows, int64_t num_columns) {
  const Three result = compress_meta(rows, columns, eids, num_rows, num_columns);
  kernels::ask_for_large_pages(std::get<1>(result));
  kernels::ask_for_large_pages(std::get<2>(result));
  const at::Tensor row = rows.contiguous(), column = columns.contiguous();
  const at::Tensor id = eids ? eids->contiguous() : at::Tensor();
  dispatch_index(rows, [&]<typename Index>(Index) {
    const EdgeList<Index> edges{row.const_data_ptr<Index>(),
                                column.const_data_ptr<Index>(),
                                eids ? id.const_data_ptr<Index>() : nullptr,
                                row.size(0),
                                num_rows,
                                num_columns};
    const CompressedEdges<Index> out{std::get<0>(result).mutable_data_ptr<Index>(),
                                     std::get<1>(result).mutable_data_ptr<Index>(),
                                     std::get<2>(result).mutable_data_ptr<Index>()};
    check_first(edges, compress_cpu(edges, out, torch_workers()));
  });
  return result;
}

at::Tensor expand_rows_meta(const at::Tensor& indptr, c10::SymInt num_edges) {
  check_ids("expand_rows", "indptr", indptr, indptr);
  TORCH_CHECK_VALUE(indptr.sym_size(0) >= 1, "smex::expand_rows: indptr must not be empty");
  return at::empty_symint({num_edges}, indptr.options());
}

at::Tensor expand_rows_on_cpu(const at::Tensor& indptr, int64_t num_edges) {
  const at::Tensor rows = expand_rows_meta(indptr, num_edges);
  const at::Tensor bounds = indptr.contiguous();
  dispatch_index(indptr, [&]<typename Index>(Index) {
    const Index* const from = bounds.const_data_ptr<Index>();
    const int64_t num_rows = bounds.size(0) - 1;
    check_indptr("expand_rows", is_indptr(from, num_rows, num_edges), num_edges);
    expand_cpu<Index>(from, nullptr, nullptr, num_rows, num_edges, rows.mutable_data_ptr<Index>(),
                      nullptr, torch_workers());
  });
  return rows;
}

Two expand_meta(const at::Tensor& indptr, const at::Tensor& indices, const OptionalTensor& eids) {
  check_rows("expand_edges", indptr, indices, eids);
  const auto edges = [&] { return at::empty_symint({indices.sym_size(0)}, indices.options()); };
  return {edges(), edges()};
}

Two expand_on_cpu(const at::Tensor& indptr, const at::Tensor& indices, const OptionalTensor& eids) {
  const RowTensors tensors("expand_edges", indptr, indices, eids);
  const Two result = expand_meta(indptr, indices, eids);
  dispatch_index(indices, [&]<typename Index>(Index) {
    const Rows<Index> from = tensors.rows<Index>();
    check_indptr("expand_edges", is_indptr(from.indptr, from.num_rows, from.num_edges),
                 from.num_edges);
    const int64_t invalid =
        expand_cpu(from.indptr, from.indices, from.eids, from.num_rows, from.num_edges,
                   std::get<0>(result).mutable_data_ptr<Index>(),
                   std::get<1>(result).mutable_data_ptr<Index>(), torch_workers());
    TORCH_CHECK_VALUE(invalid < 0, "smex::expand_edges: eids[", invalid, "] is not in [0, ",
                      from.num_edges, ")");
  });
  return result;
}

at::Tensor count_meta(const at::Tensor& ids, c10::SymInt size) {
  check_ids("count_ids", "ids", ids, ids);
  return at::empty_symint({size}, ids.options());
}

at::Tensor count_on_cpu(const at::Tensor& ids, int64_t size) {
  const at::Tensor result = count_meta(ids, size);
  const at::Tensor dense = ids.contiguous();
  dispatch_index(ids, [&]<typename Index>(Index) {
    const Index* const from = dense.const_data_ptr<Index>();
    const int64_t invalid =
        count_cpu(from, dense.size(0), size, result.mutable_data_ptr<Index>(), torch_workers());
    TORCH_CHECK_VALUE(invalid < 0, "smex::count_ids: ids[", invalid, "] is ", from[invalid],
                      ", expected an id in [0, ", size, ")");
  });
  return result;
}

#ifdef SMEX_WITH_CUDA

Three compress_on_cuda(const at::Tensor& rows, const at::Tensor& columns,
                       const OptionalTensor& eids, int64_t num_rows, int64_t num_columns) {
  const c10::cuda::CUDAGuard guard(rows.device());
  const Three result = compress_meta(rows, columns, eids, num_rows, num_columns);
  const at::Tensor row = rows.contiguous(), column = columns.contiguous();
  const at::Tensor id = eids ? eids->contiguous() : at::Tensor();
  dispatch_index(rows, [&]<typename Index>(Index) {
    const EdgeList<Index> edges{row.const_data_ptr<Index>(),
                                column.const_data_ptr<Index>(),
                                eids ? id.const_data_ptr<Index>() : nullptr,
                                row.size(0),
                                num_rows,
                                num_columns};
    DeviceWork work(rows);
    first_invalid_cuda(edges, work.first(), work.stream());
    const int64_t invalid = work.first_or_end();
    TORCH_CHECK_VALUE(invalid == edges.num_edges, "smex::compress_edges: edge ", invalid,
                      " joins row ", row[invalid].item<int64_t>(), " and column ",
                      column[invalid].item<int64_t>(), ", expected ids in [0, ", num_rows,
                      ") and [0, ", num_columns, "), and edge ids in [0, ", edges.num_edges, ")");
    const CompressedEdges<Index> out{std::get<0>(result).mutable_data_ptr<Index>(),
                                     std::get<1>(result).mutable_data_ptr<Index>(),
                                     std::get<2>(result).mutable_data_ptr<Index>()};
    compress_cuda(edges, out, work.allocate(), work.stream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return result;
}

at::Tensor expand_rows_on_cuda(const at::Tensor& indptr, int64_t num_edges) {
  const c10::cuda::CUDAGuard guard(indptr.device());
  const at::Tensor rows = expand_rows_meta(indptr, num_edges);
  const at::Tensor bounds = indptr.contiguous();
  dispatch_index(indptr, [&]<typename Index>(Index) {
    const Rows<Index> from{bounds.const_data_ptr<Index>(), nullptr, nullptr, bounds.size(0) - 1,
                           num_edges};
    expand_cuda<Index>(from, rows.mutable_data_ptr<Index>(), nullptr, DeviceWork(rows).stream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return rows;
}

Two expand_on_cuda(const at::Tensor& indptr, const at::Tensor& indices,
                   const OptionalTensor& eids) {
  const c10::cuda::CUDAGuard guard(indices.device());
  const RowTensors tensors("expand_edges", indptr, indices, eids);
  const Two result = expand_meta(indptr, indices, eids);
  dispatch_index(indices, [&]<typename Index>(Index) {
    expand_cuda(tensors.rows<Index>(), std::get<0>(result).mutable_data_ptr<Index>(),
                std::get<1>(result).mutable_data_ptr<Index>(), DeviceWork(indices).stream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return result;
}

at::Tensor count_on_cuda(const at::Tensor& ids, int64_t size) {
  const c10::cuda::CUDAGuard guard(ids.device());
  const at::Tensor result = count_meta(ids, size).zero_();
  const at::Tensor dense = ids.contiguous();
  dispatch_index(ids, [&]<typename Index>(Index) {
    DeviceWork work(ids);
    count_cuda(dense.const_data_ptr<Index>(), dense.size(0), size, result.mutable_data_ptr<Index>(),
               work.first(), work.stream());
    const int64_t invalid = work.first_or_end();
    TORCH_CHECK_VALUE(invalid == dense.size(0), "smex::count_ids: ids[", invalid, "] is ",
                      dense[invalid].item<int64_t>(), ", expected an id in [0, ", size, ")");
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return result;
}

#endif  // SMEX_WITH_CUDA

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "compress_edges(Tensor rows, Tensor columns, Tensor? eids, SymInt num_rows, "
      "SymInt num_columns) -> (Tensor, Tensor, Tensor)");
  m.def("count_ids(Tensor ids, SymInt size) -> Tensor");
  m.def("expand_edges(Tensor indptr, Tensor indices, Tensor? eids) -> (Tensor, Tensor)");
  m.def("expand_rows(Tensor indptr, SymInt num_edges) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("compress_edges", compress_meta);
  m.impl("count_ids", count_meta);
  m.impl("expand_edges", expand_meta);
  m.impl("expand_rows", expand_rows_meta);
}

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("compress_edges", compress_on_cpu);
  m.impl("count_ids", count_on_cpu);
  m.impl("expand_edges", expand_on_cpu);
  m.impl("expand_rows", expand_rows_on_cpu);
}

#ifdef SMEX_WITH_CUDA
TORCH_LIBRARY_IMPL(smex, CUDA, m) {
  m.impl("compress_edges", compress_on_cuda);
  m.impl("count_ids", count_on_cuda);
  m.impl("expand_edges", expand_on_cuda);
  m.impl("expand_rows", expand_rows_on_cuda);
}
#endif

}  // namespace smex::graph
