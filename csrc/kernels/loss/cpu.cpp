#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/clone.h>
#include <torch/library.h>

namespace smex::kernels {
namespace {

at::Tensor class_index_on_cpu(const at::Tensor& target, int64_t classes, int64_t ignore_index) {
  const at::Tensor dense = target.contiguous();
  AT_DISPATCH_INTEGRAL_TYPES(target.scalar_type(), "smex::class_index", [&] {
    const auto* const data = dense.const_data_ptr<scalar_t>();
    for (int64_t i = 0; i < dense.numel(); ++i) {
      const auto value = static_cast<int64_t>(data[i]);
      TORCH_CHECK_INDEX((value >= 0 && value < classes) || value == ignore_index, "Target ", value,
                        " is out of bounds: there are ", classes, " classes");
    }
  });
  return target.clone();
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) { m.impl("class_index", class_index_on_cpu); }

}  // namespace smex::kernels
