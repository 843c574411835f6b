#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

namespace smex::runtime {

// torch's collectives as operators: their methods have other names in its versions. Each returns at
// once; tensors are of one dimension and live until the work is over.

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
using Work = c10::intrusive_ptr<c10d::Work>;

/// Sends and receives so many elements of each rank of the group.
Work all_to_all(const Group& group, at::Tensor& received, at::Tensor& sent,
                std::vector<int64_t> receives, std::vector<int64_t> sends);
/// `received` has what is `sent` by each rank.
Work all_gather(const Group& group, at::Tensor& received, at::Tensor& sent);
/// The sum of the ranks' tensors, in place.
Work all_reduce(const Group& group, at::Tensor& tensor);
/// This rank's part of the sum of what the ranks have `sent`.
Work reduce_scatter(const Group& group, at::Tensor& received, at::Tensor& sent);

}  // namespace smex::runtime
