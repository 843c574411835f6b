// What the gradients of operators on messages are made of: other such operators.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/message/expression.h"

namespace smex::kernels {

/// A differentiable message product, ready to be called: its text and the operands that occur.
struct MessageCall {
  std::string message;
  std::vector<at::Tensor> operands;
};

/// Throws NotImplementedError where an operand carries a tangent: `op` has no forward-mode
/// derivative, and would lose it.
void refuse_tangents(const char* op, at::TensorList operands);

/// Whether autograd records a call on these operands.
bool wants_gradient(at::TensorList operands);

/// Renumbers the operands that occur in `message`.
MessageCall call_of(const Message& message, at::TensorList operands);

/// What autograd keeps of a call: structure, the operands that some gradient reads, and shapes.
struct SavedMessage {
  Message message;
  std::vector<at::Tensor> in_edges, out_edges;
  std::vector<at::Tensor> operands;            ///< undefined where no gradient reads it
  std::vector<std::vector<int64_t>> features;  ///< of all operands
  std::vector<int64_t> last_sizes;             ///< of all operands
  at::Tensor extra;                            ///< what the caller of `save_call` added
};

/// Keeps what the gradients of a call need, whose arguments have been checked. The call's inputs
/// are the operands first, then the edges, then `others` that are no tensors. Throws where a
/// gradient needs `out_edges`.
void save_call(torch::autograd::AutogradContext* ctx, const char* op, const Message& message,
               at::TensorList operands, at::TensorList in_edges, at::TensorList out_edges,
               int64_t others, bool needs_out_edges, const at::Tensor& extra = at::Tensor());

SavedMessage saved_call(torch::autograd::AutogradContext* ctx);

/// The gradients of all inputs of a call kept by `save_call`; `of_operand(i)` is called for the
/// operands whose gradient is wanted.
torch::autograd::variable_list input_gradients(torch::autograd::AutogradContext* ctx,
                                               const SavedMessage& saved,
                                               const std::function<at::Tensor(int)>& of_operand);

/// The gradient, undefined where it is 0 by its formula, of operand `index` of a sum over in-edges,
/// `grad` being [num_rows, ...] for `grad_target` kDestination, or of values per edge, for kEdge.
at::Tensor operand_gradient(const SavedMessage& saved, int index, Target grad_target,
                            const at::Tensor& grad);

/// `op(a, b)` by torch's operators; `value` is the number that `takes_number`. Not for kOperand
/// and kConstant, which have no arguments.
at::Tensor call_torch(MessageOp op, const at::Tensor& a, const at::Tensor& b, double value);

/// The value of a message for operands that are aligned row by row, by torch's operators. Those
/// that do not occur may be undefined, but not all.
at::Tensor evaluate(const Message& message, at::TensorList operands);

at::Tensor sum_to_features(const at::Tensor& grad, const std::vector<int64_t>& features);

// The operators, through torch's dispatcher.
at::Tensor call_spmm(at::TensorList in_edges, at::TensorList out_edges, std::string_view message,
                     std::string_view reduce, at::TensorList operands);
at::Tensor call_sddmm(at::TensorList in_edges, at::TensorList out_edges, std::string_view message,
                      at::TensorList operands, at::OptionalIntArrayRef reduce_to);

}  // namespace smex::kernels
