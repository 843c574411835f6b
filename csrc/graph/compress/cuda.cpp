#include <torch/library.h>

#include "graph/compress/cuda/compress.h"
#include "graph/compress/operator.h"
#include "graph/cuda/work.h"

namespace smex::graph {
namespace {

Three compress_on_cuda(const at::Tensor& rows, const at::Tensor& columns,
                       const OptionalTensor& eids, int64_t num_rows, int64_t num_columns) {
  const c10::cuda::CUDAGuard guard(rows.device());
  const Three result = compress_meta(rows, columns, eids, num_rows, num_columns);
  const ListTensors tensors(rows, columns, eids);
  dispatch_index(rows, [&]<typename Index>(Index) {
    const auto edges = tensors.list<Index>(num_rows, num_columns);
    DeviceWork work(rows);
    first_invalid_cuda(edges, work.first(), work.stream());
    const int64_t invalid = work.first_or_end();
    TORCH_CHECK_VALUE(invalid == edges.num_edges, kCompress, ": edge ", invalid, " joins row ",
                      tensors.rows[invalid].item<int64_t>(), " and column ",
                      tensors.columns[invalid].item<int64_t>(), ", expected ids in [0, ", num_rows,
                      ") and [0, ", num_columns, "), and edge ids in [0, ", edges.num_edges, ")");
    compress_cuda(edges, compressed_edges<Index>(result), work.allocate(), work.stream());
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
    TORCH_CHECK_VALUE(invalid == dense.size(0), kCount, ": ids[", invalid, "] is ",
                      dense[invalid].item<int64_t>(), ", expected an id in [0, ", size, ")");
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return result;
}

Two expand_on_cuda(const at::Tensor& indptr, const at::Tensor& indices,
                   const OptionalTensor& eids) {
  const c10::cuda::CUDAGuard guard(indices.device());
  const Two result = expand_meta(indptr, indices, eids);
  const EdgeTensors tensors(indptr, indices, eids);
  dispatch_index(indices, [&]<typename Index>(Index) {
    expand_cuda(tensors.rows<Index>(), std::get<0>(result).mutable_data_ptr<Index>(),
                std::get<1>(result).mutable_data_ptr<Index>(), DeviceWork(indices).stream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return result;
}

at::Tensor expand_rows_on_cuda(const at::Tensor& indptr, int64_t num_edges) {
  const c10::cuda::CUDAGuard guard(indptr.device());
  const at::Tensor rows = expand_rows_meta(indptr, num_edges);
  const at::Tensor bounds = indptr.contiguous();
  dispatch_index(indptr, [&]<typename Index>(Index) {
    const EdgeRows<Index> from{bounds.size(0) - 1, num_edges, bounds.const_data_ptr<Index>()};
    expand_cuda<Index>(from, rows.mutable_data_ptr<Index>(), nullptr, DeviceWork(rows).stream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return rows;
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CUDA, m) {
  m.impl("compress_edges", compress_on_cuda);
  m.impl("count_ids", count_on_cuda);
  m.impl("expand_edges", expand_on_cuda);
  m.impl("expand_rows", expand_rows_on_cuda);
}

}  // namespace smex::graph
