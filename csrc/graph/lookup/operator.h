// What the files that register these operators share: each checks its arguments and makes the
// result, not initialised, whatever the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "edges/tensors.h"

namespace smex::graph {

using OptionalTensor = std::optional<at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

constexpr const char* kFindScan = "smex::find_scan";
constexpr const char* kFindSorted = "smex::find_sorted";
constexpr const char* kHasParallel = "smex::has_parallel";
constexpr const char* kMergeParallel = "smex::merge_parallel";

at::Tensor find_scan_meta(const at::Tensor& indptr, const at::Tensor& indices,
                          const OptionalTensor& eids, const at::Tensor& rows,
                          const at::Tensor& columns);
Two find_sorted_meta(const at::Tensor& indptr, const at::Tensor& indices, const at::Tensor& rows,
                     const at::Tensor& columns);

}  // namespace smex::graph
