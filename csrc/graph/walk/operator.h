// What the files that register these operators share: each checks its arguments and makes the
// result, not initialised, whatever the device.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "edges/tensors.h"

namespace smex::graph {

using OptionalTensor = std::optional<at::Tensor>;
using TensorOptionals = c10::List<OptionalTensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;

constexpr const char* kNode2vec = "smex::node2vec_walk";
constexpr const char* kRandomWalk = "smex::random_walk";

Two random_walk_meta(at::TensorList indptrs, at::TensorList indices, const TensorOptionals& eids,
                     const TensorOptionals& weights, at::IntArrayRef path, const at::Tensor& seeds,
                     const OptionalTensor& restart, int64_t seed);
Two node2vec_meta(const at::Tensor& indptr, const at::Tensor& indices, const OptionalTensor& eids,
                  const OptionalTensor& weights, const at::Tensor& sorted_indptr,
                  const at::Tensor& sorted_indices, const at::Tensor& seeds, int64_t steps,
                  double p, double q, int64_t seed);

}  // namespace smex::graph
