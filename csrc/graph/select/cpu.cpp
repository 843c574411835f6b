#include "graph/select/select.h"

#include <torch/library.h>

#include "edges/parallel.h"
#include "graph/select/operator.h"

namespace smex::graph {
namespace {

Three empty_three(int64_t size, const at::Tensor& like) {
  return {empty_ids(size, like), empty_ids(size, like), empty_ids(size, like)};
}

Three take_rows_on_cpu(const at::Tensor& indptr, const at::Tensor& indices,
                       const OptionalTensor& eids, const at::Tensor& rows) {
  check_rows(kTakeRows, indptr, indices, eids);
  check_ids(kTakeRows, "rows", rows, indices);
  const EdgeTensors tensors(indptr, indices, eids);
  const at::Tensor chosen = rows.contiguous();
  return dispatch_index(indices, [&]<typename Index>(Index) {
    const EdgeRows<Index> from = tensors.rows<Index>();
    const Index* const wanted = chosen.const_data_ptr<Index>();
    const int64_t count = chosen.size(0);
    std::vector<int64_t> offsets(count + 1);
    check_row(kTakeRows, row_offsets(from, wanted, count, offsets.data()), chosen, indptr);
    const Three result = empty_three(offsets[count], indices);
    take_rows(from, wanted, count, offsets.data(), std::get<0>(result).mutable_data_ptr<Index>(),
              std::get<1>(result).mutable_data_ptr<Index>(),
              std::get<2>(result).mutable_data_ptr<Index>(), torch_workers());
    return result;
  });
}

Three induced_edges_on_cpu(const at::Tensor& indptr, const at::Tensor& indices,
                           const OptionalTensor& eids, const at::Tensor& rows,
                           const at::Tensor& names) {
  check_rows(kInduced, indptr, indices, eids);
  check_ids(kInduced, "rows", rows, indices);
  check_ids(kInduced, "names", names, indices);
  const EdgeTensors tensors(indptr, indices, eids);
  const at::Tensor chosen = rows.contiguous(), named = names.contiguous();
  return dispatch_index(indices, [&]<typename Index>(Index) {
    const EdgeRows<Index> from = tensors.rows<Index>();
    const Index* const wanted = chosen.const_data_ptr<Index>();
    const Index* const name = named.const_data_ptr<Index>();
    const int64_t count = chosen.size(0);
    std::vector<int64_t> offsets(count + 1);
    const Workers workers = torch_workers();
    const int64_t invalid =
        induced_offsets(from, wanted, count, name, named.size(0), offsets.data(), workers);
    check_row(kInduced, invalid, chosen, indptr);
    const Three result = empty_three(offsets[count], indices);
    take_induced(from, wanted, count, name, offsets.data(),
                 std::get<0>(result).mutable_data_ptr<Index>(),
                 std::get<1>(result).mutable_data_ptr<Index>(),
                 std::get<2>(result).mutable_data_ptr<Index>(), workers);
    return result;
  });
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("induced_edges", induced_edges_on_cpu);
  m.impl("take_rows", take_rows_on_cpu);
}

}  // namespace smex::graph
