#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace smex::runtime {

/// Bytes that one worker's slots keep alive: each distinct storage once, so views cost nothing.
/// Thread-safe, because the last reader of a slot may be another worker.
class MemoryCounter {
 public:
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
};

}  // namespace smex::runtime
