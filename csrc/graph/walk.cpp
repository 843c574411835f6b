#include "graph/walk.h"

#include <ATen/core/List.h>
#include <torch/library.h>

#include <tuple>

#include "graph/candidate_tensors.h"

namespace smex::graph {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;

void check_mistake_of_walk(const char* op, const Mistake& mistake,
                           const std::vector<OptionalTensor>& weights) {
  TORCH_CHECK_VALUE(mistake.row < 0, "smex::", op, ": walk ", mistake.row,
                    " comes to a node that does not exist, or indptr and indices do not fit");
  for (const OptionalTensor& values : weights) {
    if (mistake.edge < 0) return;
    if (!values || mistake.edge >= values->size(0)) continue;
    const double weight = (*values)[mistake.edge].item<double>();
    TORCH_CHECK_VALUE(Weights::is_valid(weight), "smex::", op, ": the weight of edge ",
                      mistake.edge, " must be a finite number of at least 0, found ", weight);
  }
}

Two empty_walks(int64_t count, int64_t steps, const at::Tensor& like) {
  return {at::empty({count, steps + 1}, like.options()), at::empty({count, steps}, like.options())};
}

Two random_walk_on_cpu(at::TensorList indptrs, at::TensorList indices,
                       const c10::List<OptionalTensor>& eids,
                       const c10::List<OptionalTensor>& weights, at::IntArrayRef path,
                       const at::Tensor& seeds, const OptionalTensor& restart, int64_t seed) {
  constexpr const char* kOp = "random_walk";
  const int64_t size = indptrs.size();
  TORCH_CHECK_VALUE(size > 0 && indices.size() == indptrs.size() && eids.size() == indptrs.size() &&
                        weights.size() == indptrs.size(),
                    "smex::", kOp,
                    ": expected indptrs, indices, eids and weights of one length of "
                    "at least 1");
  std::vector<RowTensors> forms;
  std::vector<OptionalTensor> values;
  for (int64_t n = 0; n < size; ++n) {
    check_ids(kOp, "indices", indices[n], indices[0]);
    forms.emplace_back(kOp, indptrs[n], indices[n], eids.get(n));
    values.push_back(weights.get(n));
  }
  for (const int64_t etype : path) {
    TORCH_CHECK_VALUE(0 <= etype && etype < size, "smex::", kOp, ": path must have numbers below ",
                      size, ", found ", etype);
  }
  check_ids(kOp, "seeds", seeds, indices[0]);
  const int64_t steps = path.size(), count = seeds.size(0);
  at::Tensor ends;
  if (restart) {
    ends = restart->to(at::kDouble).contiguous();
    TORCH_CHECK_VALUE(ends.dim() == 1 && (ends.size(0) == 1 || ends.size(0) == steps),
                      "smex::", kOp, ": restart must have 1 or ", steps, " elements, found shape ",
                      ends.sizes());
  }
  const at::Tensor start = seeds.contiguous();
  return dispatch_index(indices[0], [&]<typename Index>(Index) -> Two {
    std::vector<Candidates<Index>> from;
    for (const int64_t n : path) {
      from.push_back({forms[n].rows<Index>(), weights_of(kOp, values[n], indices[n]), nullptr});
    }
    const Two result = empty_walks(count, steps, seeds);
    const Restart restarts{restart ? ends.const_data_ptr<double>() : nullptr,
                           restart ? ends.size(0) : 0};
    const Mistake mistake =
        random_walk(from, start.const_data_ptr<Index>(), count, restarts,
                    static_cast<uint64_t>(seed), std::get<0>(result).mutable_data_ptr<Index>(),
                    std::get<1>(result).mutable_data_ptr<Index>(), torch_workers());
    check_mistake_of_walk(kOp, mistake, values);
    return result;
  });
}

Two node2vec_walk_on_cpu(const at::Tensor& indptr, const at::Tensor& indices,
                         const OptionalTensor& eids, const OptionalTensor& weights,
                         const at::Tensor& sorted_indptr, const at::Tensor& sorted_indices,
                         const at::Tensor& seeds, int64_t steps, double p, double q, int64_t seed) {
  constexpr const char* kOp = "node2vec_walk";
  const RowTensors form(kOp, indptr, indices, eids);
  const RowTensors sorted(kOp, sorted_indptr, sorted_indices, std::nullopt);
  check_ids(kOp, "sorted_indices", sorted_indices, indices);
  check_ids(kOp, "seeds", seeds, indices);
  TORCH_CHECK_VALUE(p > 0 && q > 0 && steps >= 0, "smex::", kOp,
                    ": expected p and q above 0 and "
                    "at least 0 steps, found ",
                    p, ", ", q, " and ", steps);
  const at::Tensor start = seeds.contiguous();
  return dispatch_index(indices, [&]<typename Index>(Index) -> Two {
    const Candidates<Index> from{form.rows<Index>(), weights_of(kOp, weights, indices), nullptr};
    const Two result = empty_walks(start.size(0), steps, seeds);
    const Mistake mistake = node2vec_walk(
        from, sorted.rows<Index>(), start.const_data_ptr<Index>(), start.size(0), {p, q, steps},
        static_cast<uint64_t>(seed), std::get<0>(result).mutable_data_ptr<Index>(),
        std::get<1>(result).mutable_data_ptr<Index>(), torch_workers());
    check_mistake_of_walk(kOp, mistake, {weights});
    return result;
  });
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "node2vec_walk(Tensor indptr, Tensor indices, Tensor? eids, Tensor? weights, "
      "Tensor sorted_indptr, Tensor sorted_indices, Tensor seeds, int steps, float p, float q, "
      "int seed) -> (Tensor, Tensor)");
  m.def(
      "random_walk(Tensor[] indptrs, Tensor[] indices, Tensor?[] eids, Tensor?[] weights, "
      "int[] path, Tensor seeds, Tensor? restart, int seed) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("node2vec_walk", node2vec_walk_on_cpu);
  m.impl("random_walk", random_walk_on_cpu);
}

}  // namespace smex::graph
