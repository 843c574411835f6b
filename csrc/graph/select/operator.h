// What the files that register these operators share.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "edges/tensors.h"

namespace smex::graph {

using OptionalTensor = std::optional<at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

constexpr const char* kInduced = "smex::induced_edges";
constexpr const char* kTakeRows = "smex::take_rows";

}  // namespace smex::graph
