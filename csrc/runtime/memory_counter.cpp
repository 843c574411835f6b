#include "runtime/memory_counter.h"

#include <algorithm>

#include "ir/error.h"

namespace smex::runtime {

void MemoryCounter::add(const at::Tensor& tensor, bool borrowed) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  const auto& storage = tensor.storage();
  const std::lock_guard lock(mutex_);
  Entry& entry = storages_[storage.unsafeGetStorageImpl()];
  if (entry.references > 0) {
    ++entry.references;
    return;
  }
  const int64_t bytes = static_cast<int64_t>(borrowed ? tensor.nbytes() : storage.nbytes());
  if (live_ + bytes > limit_) {
    throw UserError(c10::str("tiles of ", live_ + bytes, " bytes at once, more than device_memory=",
                             limit_, " allows: an operator keeps more than its results take; give ",
                             "device_memory= ", live_ + bytes - limit_, " bytes more"));
  }
  entry = {1, bytes};
  live_ += entry.bytes;
  peak_ = std::max(peak_, live_);
}

void MemoryCounter::remove(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  const std::lock_guard lock(mutex_);
  const auto found = storages_.find(tensor.storage().unsafeGetStorageImpl());
  if (found == storages_.end() || --found->second.references > 0) return;
  live_ -= found->second.bytes;
  storages_.erase(found);
}

int64_t MemoryCounter::live_bytes() const {
  const std::lock_guard lock(mutex_);
  return live_;
}

int64_t MemoryCounter::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

}  // namespace smex::runtime
