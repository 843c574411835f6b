#include "graph/sample/sample.h"

#include <torch/library.h>

#include "edges/parallel.h"
#include "graph/candidate_tensors.h"
#include "graph/sample/operator.h"

namespace smex::graph {
namespace {

Three sample_neighbors_on_cpu(const at::Tensor& indptr, const at::Tensor& indices,
                              const OptionalTensor& eids, const at::Tensor& nodes, int64_t fanout,
                              bool replace, const OptionalTensor& weights,
                              const OptionalTensor& excluded, int64_t seed) {
  constexpr const char* kOp = kSample;
  check_rows(kOp, indptr, indices, eids);
  check_ids(kOp, "nodes", nodes, indices);
  check_weights(kOp, weights, indices);
  const EdgeTensors tensors(indptr, indices, eids);
  const at::Tensor chosen = nodes.contiguous();
  const Draw draw{fanout, replace, static_cast<uint64_t>(seed)};
  return dispatch_index(indices, [&]<typename Index>(Index) -> Three {
    const IdSet<Index> left_out = set_of<Index>(kOp, excluded, indices);
    const Candidates<Index> from{tensors.rows<Index>(), weights_of(weights),
                                 left_out.empty() ? nullptr : &left_out};
    const Index* const wanted = chosen.const_data_ptr<Index>();
    const int64_t count = chosen.size(0);
    const Workers workers = torch_workers();
    std::vector<int64_t> offsets(count + 1);
    const Mistake mistake = sample_offsets(from, wanted, count, draw, offsets.data(), workers);
    check_mistake(kOp, mistake, chosen, indptr, weights);
    const at::Tensor columns = empty_ids(offsets[count], indices);
    const at::Tensor drawn = empty_ids(offsets[count], indices);
    sample_rows(from, wanted, count, draw, offsets.data(), columns.mutable_data_ptr<Index>(),
                drawn.mutable_data_ptr<Index>(), workers);
    return {offsets_tensor(kOp, offsets, indices), columns, drawn};
  });
}

Three select_topk_on_cpu(const at::Tensor& indptr, const at::Tensor& indices,
                         const OptionalTensor& eids, const at::Tensor& nodes, int64_t k,
                         const at::Tensor& values, bool ascending) {
  constexpr const char* kOp = kTopk;
  check_topk(indptr, indices, eids, nodes, values);
  const EdgeTensors tensors(indptr, indices, eids);
  const at::Tensor chosen = nodes.contiguous(), by_edge = values.to(at::kDouble).contiguous();
  return dispatch_index(indices, [&]<typename Index>(Index) -> Three {
    const EdgeRows<Index> rows = tensors.rows<Index>();
    const Index* const wanted = chosen.const_data_ptr<Index>();
    const int64_t count = chosen.size(0);
    std::vector<int64_t> offsets(count + 1);
    const Mistake mistake = topk_offsets(rows, wanted, count, k, offsets.data());
    check_mistake(kOp, mistake, chosen, indptr, std::nullopt);
    const at::Tensor columns = empty_ids(offsets[count], indices);
    const at::Tensor found = empty_ids(offsets[count], indices);
    topk_rows(rows, by_edge.const_data_ptr<double>(), wanted, count, ascending, offsets.data(),
              columns.mutable_data_ptr<Index>(), found.mutable_data_ptr<Index>(), torch_workers());
    return {offsets_tensor(kOp, offsets, indices), columns, found};
  });
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("sample_neighbors", sample_neighbors_on_cpu);
  m.impl("select_topk", select_topk_on_cpu);
}

}  // namespace smex::graph
