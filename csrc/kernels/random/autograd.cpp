// What is drawn depends on the shape of `like`, not on its values: it never requires a gradient.
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include "kernels/operator_of.h"
#include "kernels/random/operator.h"

namespace smex::kernels {
namespace {

at::Tensor dropout_mask_autograd(const at::Tensor& like, double p, int64_t seed, int64_t stream,
                                 at::IntArrayRef offset, at::IntArrayRef global_shape,
                                 OptionalDtype dtype) {
  static const auto op = operator_of<decltype(dropout_mask_autograd)>("smex::dropout_mask");
  const at::AutoDispatchBelowADInplaceOrView below;
  return op.call(like, p, seed, stream, offset, global_shape, dtype);
}

at::Tensor uniform_autograd(const at::Tensor& like, int64_t seed, int64_t stream,
                            at::IntArrayRef offset, at::IntArrayRef global_shape,
                            OptionalDtype dtype) {
  static const auto op = operator_of<decltype(uniform_autograd)>("smex::uniform");
  const at::AutoDispatchBelowADInplaceOrView below;
  return op.call(like, seed, stream, offset, global_shape, dtype);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, Autograd, m) {
  m.impl("dropout_mask", dropout_mask_autograd);
  m.impl("uniform", uniform_autograd);
}

}  // namespace smex::kernels
