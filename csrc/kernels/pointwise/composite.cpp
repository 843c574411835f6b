#include <ATen/ops/scalar_tensor.h>
#include <torch/library.h>

#include <algorithm>

#include "kernels/message/gradients.h"
#include "kernels/message/operation_table.h"
#include "kernels/pointwise/operator.h"

namespace smex::kernels {
namespace {

bool takes_two_tensors(MessageOp op) {
  if (op == MessageOp::kConstant) return false;
  const Operation& operation = operation_of(op);
  return operation.arguments == 2 && !operation.takes_number;
}

}  // namespace

void pointwise_into(at::TensorList operands, std::string_view text, at::TensorList outs) {
  const auto program = program_of(text, operands.size());
  check_outs(*program, operands, outs);
  std::vector<at::Tensor> slots(program->num_slots);
  const at::ScalarType type = type_of(operands);
  std::transform(operands.begin(), operands.end(), slots.begin(),
                 [&](const at::Tensor& operand) { return operand.to(type); });
  // Values of fewer dimensions and columns are repeated, where something is added up over them.
  const at::SymDimVector shape = shape_of(operands);
  const auto whole = [&](int slot) { return slots[slot].expand_symint(shape); };
  for (const Instruction& step : program->code) {
    if (step.op == MessageOp::kSumLast || step.op == MessageOp::kMaxLast) {
      const at::Tensor value = step.b < 0 ? whole(step.a) : whole(step.a) * slots[step.b];
      slots[step.out] = shape.empty()                    ? value
                        : step.op == MessageOp::kMaxLast ? value.amax(-1, /*keepdim=*/true)
                                                         : value.sum(-1, /*keepdim=*/true);
      continue;
    }
    const at::Tensor number = at::scalar_tensor(step.value, operands[0].options().dtype(type));
    const bool takes_two = takes_two_tensors(step.op);
    const auto argument = [&](int slot, bool taken) {
      return slot >= 0 ? slots[slot] : taken ? number : at::Tensor();
    };
    slots[step.out] = step.op == MessageOp::kConstant
                          ? number
                          : call_torch(step.op, argument(step.a, takes_two),
                                       argument(step.b, takes_two), step.value);
  }
  std::vector<at::Tensor> values;
  for (const int out : program->outs) values.push_back(slots[out]);
  for (size_t i = 0; i < outs.size(); ++i) {
    const bool is_column = program->columns[i] && values[i].dim() > 0;
    outs[i].copy_(is_column ? values[i].narrow(-1, 0, 1) : values[i]);
  }
}

namespace {

std::vector<at::Tensor> pointwise(at::TensorList operands, std::string_view text) {
  const auto program = program_of(text, operands.size());
  std::vector<at::Tensor> outs = new_outs(*program, operands);
  pointwise_into(operands, text, outs);
  return outs;
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) {
  m.impl("pointwise", pointwise);
  m.impl("pointwise_into", pointwise_into);
}

}  // namespace smex::kernels
