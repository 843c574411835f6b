#include "graph/lookup.h"

#include <torch/library.h>

#include <tuple>

#include "graph/compress.h"
#include "graph/tensors.h"

#ifdef SMEX_WITH_CUDA
#include "graph/cuda/tensors.h"
#endif

namespace smex::graph {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

void check_queries(const char* op, const at::Tensor& rows, const at::Tensor& columns,
                   const at::Tensor& like) {
  check_ids(op, "rows", rows, like);
  check_ids(op, "columns", columns, like);
  TORCH_CHECK_VALUE(rows.sym_size(0) == columns.sym_size(0), "smex::", op,
                    ": rows and columns must have one length, found ", rows.sym_size(0), " and ",
                    columns.sym_size(0));
}

Two find_sorted_meta(const at::Tensor& indptr, const at::Tensor& indices, const at::Tensor& rows,
                     const at::Tensor& columns) {
  check_rows("find_sorted", indptr, indices, std::nullopt);
  check_queries("find_sorted", rows, columns, indices);
  const auto answers = [&] { return at::empty_symint({rows.sym_size(0)}, rows.options()); };
  return {answers(), answers()};
}

Two find_sorted_on_cpu(const at::Tensor& indptr, const at::Tensor& indices, const at::Tensor& rows,
                       const at::Tensor& columns) {
  const Two result = find_sorted_meta(indptr, indices, rows, columns);
  const RowTensors tensors("find_sorted", indptr, indices, std::nullopt);
  const at::Tensor row = rows.contiguous(), column = columns.contiguous();
  dispatch_index(indices, [&]<typename Index>(Index) {
    const int64_t invalid = find_sorted(
        tensors.rows<Index>(), row.const_data_ptr<Index>(), column.const_data_ptr<Index>(),
        row.size(0), std::get<0>(result).mutable_data_ptr<Index>(),
        std::get<1>(result).mutable_data_ptr<Index>(), torch_workers());
    check_row("find_sorted", invalid, row, indptr);
  });
  return result;
}

at::Tensor find_scan_meta(const at::Tensor& indptr, const at::Tensor& indices,
                          const OptionalTensor& eids, const at::Tensor& rows,
                          const at::Tensor& columns) {
  check_rows("find_scan", indptr, indices, eids);
  check_queries("find_scan", rows, columns, indices);
  return at::empty_symint({rows.sym_size(0)}, rows.options());
}

at::Tensor find_scan_on_cpu(const at::Tensor& indptr, const at::Tensor& indices,
                            const OptionalTensor& eids, const at::Tensor& rows,
                            const at::Tensor& columns) {
  const at::Tensor result = find_scan_meta(indptr, indices, eids, rows, columns);
  const RowTensors tensors("find_scan", indptr, indices, eids);
  const at::Tensor row = rows.contiguous(), column = columns.contiguous();
  dispatch_index(indices, [&]<typename Index>(Index) {
    const int64_t invalid = find_scan(tensors.rows<Index>(), row.const_data_ptr<Index>(),
                                      column.const_data_ptr<Index>(), row.size(0),
                                      result.mutable_data_ptr<Index>(), torch_workers());
    check_row("find_scan", invalid, row, indptr);
  });
  return result;
}

template <typename Index>
void check_all_rows(const char* op, const Rows<Index>& rows) {
  check_indptr(op, is_indptr(rows.indptr, rows.num_rows, rows.num_edges), rows.num_edges);
}

bool has_parallel_on_cpu(const at::Tensor& indptr, const at::Tensor& indices) {
  const RowTensors tensors("has_parallel", indptr, indices, std::nullopt);
  return dispatch_index(indices, [&]<typename Index>(Index) {
    const Rows<Index> rows = tensors.rows<Index>();
    check_all_rows("has_parallel", rows);
    return has_parallel(rows, torch_workers());
  });
}

Four merge_parallel_on_cpu(const at::Tensor& indptr, const at::Tensor& indices,
                           const OptionalTensor& eids) {
  const RowTensors tensors("merge_parallel", indptr, indices, eids);
  return dispatch_index(indices, [&]<typename Index>(Index) -> Four {
    const Rows<Index> rows = tensors.rows<Index>();
    check_all_rows("merge_parallel", rows);
    const at::Tensor groups = empty_ids(rows.num_edges, indices);
    const int64_t size = number_pairs(rows, groups.mutable_data_ptr<Index>());
    TORCH_CHECK_VALUE(size >= 0, "smex::merge_parallel: eids must be in [0, ", rows.num_edges, ")");
    const at::Tensor pair_rows = empty_ids(size, indices), columns = empty_ids(size, indices);
    const at::Tensor counts = empty_ids(size, indices);
    list_pairs(rows, pair_rows.mutable_data_ptr<Index>(), columns.mutable_data_ptr<Index>(),
               counts.mutable_data_ptr<Index>());
    return {pair_rows, columns, counts, groups};
  });
}

#ifdef SMEX_WITH_CUDA
Two find_sorted_on_cuda(const at::Tensor& indptr, const at::Tensor& indices, const at::Tensor& rows,
                        const at::Tensor& columns) {
  const c10::cuda::CUDAGuard guard(indices.device());
  const Two result = find_sorted_meta(indptr, indices, rows, columns);
  const RowTensors tensors("find_sorted", indptr, indices, std::nullopt);
  const at::Tensor row = rows.contiguous(), column = columns.contiguous();
  dispatch_index(indices, [&]<typename Index>(Index) {
    DeviceWork work(indices);
    find_sorted_cuda(tensors.rows<Index>(), row.const_data_ptr<Index>(),
                     column.const_data_ptr<Index>(), row.size(0),
                     std::get<0>(result).mutable_data_ptr<Index>(),
                     std::get<1>(result).mutable_data_ptr<Index>(), work.first(), work.stream());
    const int64_t invalid = work.first_or_end();
    check_row("find_sorted", invalid == row.size(0) ? -1 : invalid, row, indptr);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return result;
}
#endif

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "find_scan(Tensor indptr, Tensor indices, Tensor? eids, Tensor rows, Tensor columns) -> "
      "Tensor");
  m.def(
      "find_sorted(Tensor indptr, Tensor indices, Tensor rows, Tensor columns) -> "
      "(Tensor, Tensor)");
  m.def("has_parallel(Tensor indptr, Tensor indices) -> bool");
  m.def(
      "merge_parallel(Tensor indptr, Tensor indices, Tensor? eids) -> "
      "(Tensor, Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("find_scan", find_scan_meta);
  m.impl("find_sorted", find_sorted_meta);
}

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("find_scan", find_scan_on_cpu);
  m.impl("find_sorted", find_sorted_on_cpu);
  m.impl("has_parallel", has_parallel_on_cpu);
  m.impl("merge_parallel", merge_parallel_on_cpu);
}

#ifdef SMEX_WITH_CUDA
TORCH_LIBRARY_IMPL(smex, CUDA, m) { m.impl("find_sorted", find_sorted_on_cuda); }
#endif

}  // namespace smex::graph
