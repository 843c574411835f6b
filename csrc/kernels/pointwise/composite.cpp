#include <ATen/ops/scalar_tensor.h>
#include <torch/library.h>

#include <algorithm>

#include "kernels/message/gradients.h"
#include "kernels/pointwise/operator.h"

namespace smex::kernels {

void pointwise_into(at::TensorList operands, std::string_view text, at::TensorList outs) {
  const auto program = program_of(text, operands.size());
  check_outs(*program, operands, outs);
  std::vector<at::Tensor> slots(program->num_slots);
  std::copy(operands.begin(), operands.end(), slots.begin());
  const at::Tensor none;
  for (const Instruction& step : program->code) {
    slots[step.out] = step.op == MessageOp::kConstant
                          ? at::scalar_tensor(step.value, operands[0].options())
                          : call_torch(step.op, step.a < 0 ? none : slots[step.a],
                                       step.b < 0 ? none : slots[step.b], step.value);
  }
  std::vector<at::Tensor> values;
  for (const int out : program->outs) values.push_back(slots[out]);
  for (size_t i = 0; i < outs.size(); ++i) outs[i].copy_(values[i]);
}

namespace {

std::vector<at::Tensor> pointwise(at::TensorList operands, std::string_view text) {
  const auto program = program_of(text, operands.size());
  const at::TensorIterator iterator = iterator_of(operands, {}, program->outs.size());
  std::vector<at::Tensor> outs;
  for (size_t i = 0; i < program->outs.size(); ++i)
    outs.push_back(iterator.output(static_cast<int64_t>(i)));
  pointwise_into(operands, text, outs);
  return outs;
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) {
  m.impl("pointwise", pointwise);
  m.impl("pointwise_into", pointwise_into);
}

}  // namespace smex::kernels
