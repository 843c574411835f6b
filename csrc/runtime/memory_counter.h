#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <mutex>
#include <unordered_map>

namespace smex::runtime {

/// Bytes that one worker's slots keep alive: each distinct storage once, so views cost nothing.
/// Thread-safe, because the last reader of a slot may be another worker.
class MemoryCounter {
 public:
  /// From now on `add` throws UserError where more than `bytes` would be alive.
  void limit(int64_t bytes) { limit_ = bytes; }
  /// A `borrowed` tensor, a tile of the caller's, counts with its own elements only.
  void add(const at::Tensor& tensor, bool borrowed = false);
  void remove(const at::Tensor& tensor);
  int64_t live_bytes() const;
  int64_t peak_bytes() const;

 private:
  struct Entry {
    int references = 0;
    int64_t bytes = 0;
  };
  mutable std::mutex mutex_;
  std::unordered_map<const void*, Entry> storages_;
  int64_t live_ = 0;
  int64_t peak_ = 0;
  int64_t limit_ = std::numeric_limits<int64_t>::max();
};

}  // namespace smex::runtime
