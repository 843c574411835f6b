#include "kernels/cpu/kept_memory.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>

#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "kernels/cpu/large_pages.h"

namespace smex::kernels {
namespace {

constexpr size_t kSmallest = size_t{1} << 20;  ///< malloc keeps what is smaller
constexpr size_t kRounding = size_t{2} << 20;  ///< batches of nearly one size share blocks
constexpr size_t kKeptBytes = size_t{256} << 20;
constexpr uint64_t kUnused = 32;  ///< results that had no use for a block

/// Blocks that nobody holds. Where another thread is in here nothing is kept and nothing is found:
/// so no thread waits, and none does in a child that was forked meanwhile.
class KeptMemory final : public c10::Allocator {
 public:
  static KeptMemory& get() {
    static auto* const kept = new KeptMemory;  // tensors may outlive what ends with the program
    return *kept;
  }

  c10::DataPtr allocate(size_t bytes) override {
    const size_t rounded = (bytes + kRounding - 1) / kRounding * kRounding;
    Block* block = take(rounded).release();
    if (!block) {
      block = new Block{c10::GetCPUAllocator()->allocate(rounded), rounded};
      ask_for_large_pages(block->memory.get(), rounded);
    }
    return {block->memory.get(), block, &give_back, at::Device(at::kCPU)};
  }

  void copy_data(void* dest, const void* src, std::size_t count) const override {
    default_copy_data(dest, src, count);
  }

 private:
  struct Block {
    c10::DataPtr memory;
    size_t bytes = 0;
    uint64_t since = 0;  ///< by `results_`
  };
  using Blocks = std::list<std::unique_ptr<Block>>;  ///< who came last stands first

  static void give_back(void* context) {
    get().keep(std::unique_ptr<Block>(static_cast<Block*>(context)));
  }

  std::unique_ptr<Block> take(size_t bytes) {
    Blocks unused;  // freed without the lock
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return nullptr;
    ++results_;
    while (!blocks_.empty() && blocks_.back()->since + kUnused < results_) drop_last(unused);
    for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
      const size_t found = (*block)->bytes;
      if (found < bytes || found > bytes + bytes / 4 + kRounding) continue;
      kept_bytes_ -= found;
      std::unique_ptr<Block> taken = std::move(*block);
      blocks_.erase(block);
      return taken;
    }
    return nullptr;
  }

  void keep(std::unique_ptr<Block> block) {
    Blocks unused;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || block->bytes > kKeptBytes) return;
    block->since = results_;
    kept_bytes_ += block->bytes;
    blocks_.push_front(std::move(block));
    while (kept_bytes_ > kKeptBytes) drop_last(unused);
  }

  void drop_last(Blocks& unused) {
    kept_bytes_ -= blocks_.back()->bytes;
    unused.splice(unused.end(), blocks_, std::prev(blocks_.end()));
  }

  std::mutex mutex_;
  Blocks blocks_;
  size_t kept_bytes_ = 0;
  uint64_t results_ = 0;
};

}  // namespace

at::Tensor empty_kept(at::IntArrayRef sizes, const at::TensorOptions& options) {
  const size_t bytes =
      static_cast<size_t>(c10::multiply_integers(sizes)) * options.dtype().itemsize();
  if (options.device().type() != at::kCPU || bytes < kSmallest) return at::empty(sizes, options);
  return at::detail::empty_generic(sizes, &KeptMemory::get(),
                                   c10::DispatchKeySet(c10::DispatchKey::CPU),
                                   c10::typeMetaToScalarType(options.dtype()), std::nullopt);
}

}  // namespace smex::kernels
