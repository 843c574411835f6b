#include "graph/labor/labor.h"

#include <torch/library.h>

#include <tuple>

#include "edges/parallel.h"
#include "graph/candidate_tensors.h"

namespace smex::graph {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

Four sample_labors_on_cpu(const at::Tensor& indptr, const at::Tensor& indices,
                          const OptionalTensor& eids, const at::Tensor& nodes, int64_t fanout,
                          const OptionalTensor& weights, const OptionalTensor& excluded,
                          int64_t iterations, int64_t seed, int64_t second_seed, double share) {
  constexpr const char* kOp = "smex::sample_labors";
  check_rows(kOp, indptr, indices, eids);
  check_ids(kOp, "nodes", nodes, indices);
  TORCH_CHECK_VALUE(0 <= share && share <= 1, kOp, ": share must be in [0, 1], found ", share);
  check_weights(kOp, weights, indices);
  const EdgeTensors tensors(indptr, indices, eids);
  const at::Tensor chosen = nodes.contiguous();
  const LaborDraw draw{fanout, iterations, static_cast<uint64_t>(seed),
                       static_cast<uint64_t>(second_seed), share};
  return dispatch_index(indices, [&]<typename Index>(Index) -> Four {
    const IdSet<Index> left_out = set_of<Index>(kOp, excluded, indices);
    const Candidates<Index> from{tensors.rows<Index>(), weights_of(weights),
                                 left_out.empty() ? nullptr : &left_out};
    WeightedEdges<Index> drawn;
    const Mistake mistake = sample_labor(from, chosen.const_data_ptr<Index>(), chosen.size(0), draw,
                                         drawn, torch_workers());
    check_mistake(kOp, mistake, chosen, indptr, weights);
    const at::TensorOptions options = indices.options();
    return {offsets_tensor(kOp, drawn.offsets, indices), to_tensor(drawn.columns, options),
            to_tensor(drawn.eids, options), to_tensor(drawn.importances, options)};
  });
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) { m.impl("sample_labors", sample_labors_on_cpu); }

}  // namespace smex::graph
