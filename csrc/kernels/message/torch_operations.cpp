#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "kernels/message/gradients.h"

namespace smex::kernels {
namespace {

/// A condition as 1 and 0 in the type of `like`.
at::Tensor as_numbers(const at::Tensor& condition, const at::Tensor& like) {
  return condition.to(like.scalar_type());
}

at::Tensor number_like(const at::Tensor& x, double value) {
  return at::full({}, value, x.options());
}

}  // namespace

#define SMEX_TORCH_aten(function, arguments) at::function arguments
#define SMEX_TORCH_compared(function, arguments) as_numbers(at::function arguments, a)
#define SMEX_TORCH_by(...) __VA_ARGS__

at::Tensor call_torch(MessageOp op, const at::Tensor& a, const at::Tensor& b, double value) {
  switch (op) {
#define SMEX_OP(id, name, form, result, to_a, to_b, torch) \
  case MessageOp::id:                                      \
    return SMEX_TORCH_##torch;
#include "kernels/message/operations.def"
    default:
      TORCH_INTERNAL_ASSERT(false, "an operand or a constant has no arguments");
  }
}

}  // namespace smex::kernels
