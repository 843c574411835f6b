#include "kernels/cpu/large_pages.h"

#include <ATen/ops/empty.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace smex::kernels {

void ask_for_large_pages(const at::Tensor& fresh) {
  if (fresh.is_cpu()) ask_for_large_pages(fresh.mutable_data_ptr(), fresh.nbytes());
}

void ask_for_large_pages([[maybe_unused]] void* fresh, [[maybe_unused]] size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr uintptr_t kPage = uintptr_t{2} << 20;
  // Below a few pages the unaligned ends are most of the block.
  constexpr size_t kSmallest = 3 * kPage;
  if (bytes >= kSmallest) {
    const auto begin = reinterpret_cast<uintptr_t>(fresh);
    const uintptr_t first = (begin + kPage - 1) / kPage * kPage;
    const uintptr_t last = (begin + bytes) / kPage * kPage;
    // A wish: where the system has none to give, small pages do.
    madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
  }
#endif
}

at::Tensor empty_result(at::IntArrayRef sizes, const at::TensorOptions& options) {
  const at::Tensor result = at::empty(sizes, options);
  ask_for_large_pages(result);
  return result;
}

}  // namespace smex::kernels
