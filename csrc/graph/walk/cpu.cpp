#include <torch/library.h>

#include "edges/parallel.h"
#include "graph/candidate_tensors.h"
#include "graph/walk/operator.h"
#include "graph/walk/walk.h"

namespace smex::graph {
namespace {

void check_mistake_of_walk(const char* op, const Mistake& mistake,
                           const std::vector<OptionalTensor>& weights) {
  TORCH_CHECK_VALUE(mistake.row < 0, op, ": walk ", mistake.row,
                    " comes to a node that does not exist, or indptr and indices do not fit");
  for (const OptionalTensor& values : weights) {
    if (mistake.edge < 0) return;
    if (!values || mistake.edge >= values->size(0)) continue;
    const double weight = (*values)[mistake.edge].item<double>();
    TORCH_CHECK_VALUE(Weights::is_valid(weight), op, ": the weight of edge ", mistake.edge,
                      " must be a finite number of at least 0, found ", weight);
  }
}

Two random_walk_on_cpu(at::TensorList indptrs, at::TensorList indices, const TensorOptionals& eids,
                       const TensorOptionals& weights, at::IntArrayRef path,
                       const at::Tensor& seeds, const OptionalTensor& restart, int64_t seed) {
  const Two result = random_walk_meta(indptrs, indices, eids, weights, path, seeds, restart, seed);
  std::vector<EdgeTensors> forms;
  std::vector<OptionalTensor> values;
  for (size_t n = 0; n < indptrs.size(); ++n) {
    forms.emplace_back(indptrs[n], indices[n], eids.get(n));
    values.push_back(weights.get(n));
  }
  const at::Tensor ends = restart ? restart->to(at::kDouble).contiguous() : at::Tensor();
  const at::Tensor start = seeds.contiguous();
  dispatch_index(indices[0], [&]<typename Index>(Index) {
    std::vector<Candidates<Index>> from;
    for (const int64_t n : path) {
      from.push_back({forms[n].rows<Index>(), weights_of(values[n]), nullptr});
    }
    const Restart restarts{restart ? ends.const_data_ptr<double>() : nullptr,
                           restart ? ends.size(0) : 0};
    const Mistake mistake =
        random_walk(from, start.const_data_ptr<Index>(), start.size(0), restarts,
                    static_cast<uint64_t>(seed), std::get<0>(result).mutable_data_ptr<Index>(),
                    std::get<1>(result).mutable_data_ptr<Index>(), torch_workers());
    check_mistake_of_walk(kRandomWalk, mistake, values);
  });
  return result;
}

Two node2vec_walk_on_cpu(const at::Tensor& indptr, const at::Tensor& indices,
                         const OptionalTensor& eids, const OptionalTensor& weights,
                         const at::Tensor& sorted_indptr, const at::Tensor& sorted_indices,
                         const at::Tensor& seeds, int64_t steps, double p, double q, int64_t seed) {
  const Two result = node2vec_meta(indptr, indices, eids, weights, sorted_indptr, sorted_indices,
                                   seeds, steps, p, q, seed);
  const EdgeTensors form(indptr, indices, eids);
  const EdgeTensors sorted(sorted_indptr, sorted_indices, std::nullopt);
  const at::Tensor start = seeds.contiguous();
  dispatch_index(indices, [&]<typename Index>(Index) {
    const Candidates<Index> from{form.rows<Index>(), weights_of(weights), nullptr};
    const Mistake mistake = node2vec_walk(
        from, sorted.rows<Index>(), start.const_data_ptr<Index>(), start.size(0), {p, q, steps},
        static_cast<uint64_t>(seed), std::get<0>(result).mutable_data_ptr<Index>(),
        std::get<1>(result).mutable_data_ptr<Index>(), torch_workers());
    check_mistake_of_walk(kNode2vec, mistake, {weights});
  });
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("node2vec_walk", node2vec_walk_on_cpu);
  m.impl("random_walk", random_walk_on_cpu);
}

}  // namespace smex::graph
