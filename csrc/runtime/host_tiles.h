#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/memory_counter.h"
#include "runtime/tile.h"

namespace smex::runtime {

/// Tiles of one worker that are on the host, or have a copy there: how they come and go.
///
/// A copy is of the whole memory that tiles share, and keeps their strides, so that kernels compute
/// the same from what comes back, bit by bit. On the CPU the host's copies are other buffers than
/// the device's, and not counted. Elsewhere they are in pinned memory, and go by a stream of their
/// own, which waits for what is written, and which the worker's stream waits for; memory for what
/// comes is that stream's too, so that it can come while the device computes. It belongs to the
/// worker's thread.
class HostTiles {
 public:
  explicit HostTiles(c10::Device device);

  /// Takes a tile of the caller's, of any strides; it is copied where its elements have gaps.
  static void give(SlotState& slot, const at::Tensor& tile);

  /// Writes what has no copy on the host, and returns its bytes.
  int64_t write(const std::vector<SlotState*>& slots);
  /// Lets go of what is on the device.
  void drop(const std::vector<SlotState*>& slots, MemoryCounter& memory);
  /// Brings what is on the host alone, and returns its bytes.
  int64_t restore(const std::vector<SlotState*>& slots, MemoryCounter& memory);
  /// Waits until the host has what was written.
  void settle() const;
  /// By which tiles are written; none on the CPU.
  const std::optional<c10::Stream>& stream() const { return stream_; }

 private:
  at::Tensor to_host(const at::Tensor& tile) const;
  at::Tensor to_device(const SlotState& slot) const;

  c10::Device device_;
  std::optional<c10::Stream> stream_;
};

}  // namespace smex::runtime
