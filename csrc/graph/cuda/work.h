#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <vector>

#include "graph/cuda/memory.h"

namespace smex::graph {

/// What a call on the device needs beside its operands: torch's stream and memory, and one number
/// that comes back.
class DeviceWork {
 public:
  explicit DeviceWork(const at::Tensor& like)
      : like_(like), first_(at::empty({1}, like.options().dtype(at::kLong))) {}

  CUstream_st* stream() const { return c10::cuda::getCurrentCUDAStream().stream(); }

  /// Where a kernel puts the position of the first mistake.
  int64_t* first() const { return first_.mutable_data_ptr<int64_t>(); }

  /// Waits for the device and reads it.
  int64_t first_or_end() const { return first_.item<int64_t>(); }

  /// Memory from torch's cache; it may be used again by what is queued after this call.
  Allocate allocate() {
    return [this](size_t bytes) {
      memory_.push_back(at::empty({static_cast<int64_t>(bytes)}, like_.options().dtype(at::kByte)));
      return memory_.back().mutable_data_ptr();
    };
  }

 private:
  at::Tensor like_;
  at::Tensor first_;
  std::vector<at::Tensor> memory_;
};

}  // namespace smex::graph
