// Targets of a loss over classes, checked. The loss compares classes with targets, one by one, so
// that classes can be cut; a target that is no class would equal none of them unnoticed.
#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_assert_async.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/all.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

namespace smex::kernels {
namespace {

at::Tensor class_index(const at::Tensor& target, int64_t classes, int64_t ignore_index) {
  const at::Tensor known = ((target >= 0) & (target < classes)) | (target == ignore_index);
  at::_assert_async(known.all(), "smex::class_index: a target is out of bounds");
  return target.clone();
}

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

at::Tensor class_index_meta(const at::Tensor& target, int64_t /*classes*/,
                            int64_t /*ignore_index*/) {
  return at::empty_like(target);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def("class_index(Tensor target, int classes, int ignore_index) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) { m.impl("class_index", class_index); }
TORCH_LIBRARY_IMPL(smex, CPU, m) { m.impl("class_index", class_index_on_cpu); }
TORCH_LIBRARY_IMPL(smex, Meta, m) { m.impl("class_index", class_index_meta); }

}  // namespace smex::kernels
