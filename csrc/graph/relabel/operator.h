// What the files that register the operator share.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>
#include <vector>

#include "edges/tensors.h"

namespace smex::graph {

using Relabeled = std::tuple<at::Tensor, std::vector<at::Tensor>>;

constexpr const char* kRelabel = "smex::relabel_ids";

/// The lists are vectors of one type and device. Returns how many ids they have together.
inline int64_t check_lists(at::TensorList lists) {
  int64_t total = 0;
  for (const at::Tensor& ids : lists) {
    check_ids(kRelabel, "each list", ids, lists[0]);
    total += ids.size(0);
  }
  return total;
}

}  // namespace smex::graph
