// Random walks. There is no implementation for CUDA: each walk reads a stream of random numbers of
// its own.
#include <torch/library.h>

#include "graph/candidate_tensors.h"
#include "graph/walk/operator.h"

namespace smex::graph {
namespace {

Two empty_walks(const at::Tensor& seeds, int64_t steps) {
  const c10::SymInt count = seeds.sym_size(0);
  return {at::empty_symint({count, steps + 1}, seeds.options()),
          at::empty_symint({count, steps}, seeds.options())};
}

}  // namespace

Two random_walk_meta(at::TensorList indptrs, at::TensorList indices, const TensorOptionals& eids,
                     const TensorOptionals& weights, at::IntArrayRef path, const at::Tensor& seeds,
                     const OptionalTensor& restart, int64_t /*seed*/) {
  constexpr const char* kOp = kRandomWalk;
  const auto size = static_cast<int64_t>(indptrs.size());
  TORCH_CHECK_VALUE(size > 0 && indices.size() == indptrs.size() && eids.size() == indptrs.size() &&
                        weights.size() == indptrs.size(),
                    kOp,
                    ": expected indptrs, indices, eids and weights of one length of "
                    "at least 1");
  for (int64_t n = 0; n < size; ++n) {
    check_ids(kOp, "indices", indices[n], indices[0]);
    check_rows(kOp, indptrs[n], indices[n], eids.get(n));
  }
  for (const int64_t etype : path) {
    TORCH_CHECK_VALUE(0 <= etype && etype < size, kOp, ": path must have numbers below ", size,
                      ", found ", etype);
  }
  check_ids(kOp, "seeds", seeds, indices[0]);
  const auto steps = static_cast<int64_t>(path.size());
  if (restart) {
    TORCH_CHECK_VALUE(
        restart->dim() == 1 && (restart->sym_size(0) == 1 || restart->sym_size(0) == steps), kOp,
        ": restart must have 1 or ", steps, " elements, found shape ", restart->sym_sizes());
  }
  for (const int64_t n : path) check_weights(kOp, weights.get(n), indices[n]);
  return empty_walks(seeds, steps);
}

Two node2vec_meta(const at::Tensor& indptr, const at::Tensor& indices, const OptionalTensor& eids,
                  const OptionalTensor& weights, const at::Tensor& sorted_indptr,
                  const at::Tensor& sorted_indices, const at::Tensor& seeds, int64_t steps,
                  double p, double q, int64_t /*seed*/) {
  constexpr const char* kOp = kNode2vec;
  check_rows(kOp, indptr, indices, eids);
  check_rows(kOp, sorted_indptr, sorted_indices, std::nullopt);
  check_ids(kOp, "sorted_indices", sorted_indices, indices);
  check_ids(kOp, "seeds", seeds, indices);
  TORCH_CHECK_VALUE(p > 0 && q > 0 && steps >= 0, kOp,
                    ": expected p and q above 0 and "
                    "at least 0 steps, found ",
                    p, ", ", q, " and ", steps);
  check_weights(kOp, weights, indices);
  return empty_walks(seeds, steps);
}

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "node2vec_walk(Tensor indptr, Tensor indices, Tensor? eids, Tensor? weights, "
      "Tensor sorted_indptr, Tensor sorted_indices, Tensor seeds, int steps, float p, float q, "
      "int seed) -> (Tensor, Tensor)");
  m.def(
      "random_walk(Tensor[] indptrs, Tensor[] indices, Tensor?[] eids, Tensor?[] weights, "
      "int[] path, Tensor seeds, Tensor? restart, int seed) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("node2vec_walk", node2vec_meta);
  m.impl("random_walk", random_walk_meta);
}

}  // namespace smex::graph
