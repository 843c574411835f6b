#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <atomic>
#include <memory>

#include "ir/region.h"

namespace smex::runtime {

/// What a worker's slot holds.
struct SlotState {
  at::Tensor tensor;
  at::Tensor host;        ///< the copy that the host keeps, where tiles may be there (host_tiles.h)
  bool borrowed = false;  ///< `host` lies in the caller's memory
  std::unique_ptr<c10::Event> written;  ///< on an accelerator, for readers on other streams
  std::atomic<int> references{0};
  std::atomic<bool> ready{false};
};

c10::SmallVector<int64_t, 5> sizes_of(const Region& box);

/// The box of `tensor`, sharing its storage. Throws InternalError where it is outside.
at::Tensor box_view(const at::Tensor& tensor, const Region& box);

}  // namespace smex::runtime
