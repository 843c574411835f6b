#include "kernels/message/gradients.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <map>

#include "kernels/message/operands.h"
#include "kernels/operator_of.h"

namespace smex::kernels {
namespace {

Message renumbered(const Message& message, std::map<int, int>& numbers) {
  if (message->op == MessageOp::kOperand) {
    const int next = static_cast<int>(numbers.size());
    return operand(message->target, numbers.emplace(message->operand, next).first->second);
  }
  if (!message->a) return message;
  const Message a = renumbered(message->a, numbers);
  return call(message->op, a, message->b ? renumbered(message->b, numbers) : nullptr);
}

bool contains(const Message& message, MessageOp op) {
  return message->op == op || (message->a && contains(message->a, op)) ||
         (message->b && contains(message->b, op));
}

// The operands that occur in the gradients of those that are wanted.
std::vector<bool> needed_operands(const Message& message, const std::vector<bool>& wanted,
                                  at::TensorList operands) {
  std::vector<bool> needed(wanted.size(), false);
  std::vector<int64_t> sizes = last_sizes(operands);
  const int grad = static_cast<int>(wanted.size());
  sizes.push_back(*std::max_element(sizes.begin(), sizes.end()));
  for (const Message& read : operands_of(message)) {
    if (!wanted[read->operand]) continue;
    const Message d =
        derivative(message, read->target, read->operand, operand(Target::kEdge, grad), sizes);
    for (const Message& other : operands_of(d))
      if (other->operand != grad) needed[other->operand] = true;
  }
  return needed;
}

/// `features`, but 1 where the value of the message is.
std::vector<int64_t> reduced_features(const MessageCall& call,
                                      const std::vector<int64_t>& features) {
  const Message message = message_of("smex::sddmm", call.message);
  const at::SymDimVector shape = symbolic_shape("smex::sddmm", message, call.operands);
  std::vector<int64_t> result = features;
  for (size_t back = 1; back <= features.size(); ++back) {
    int64_t& size = result[features.size() - back];
    if (back > shape.size() || shape[shape.size() - back] == 1) size = 1;
  }
  return result;
}

}  // namespace

void refuse_tangents(const char* op, at::TensorList operands) {
  for (const at::Tensor& x : operands)
    TORCH_CHECK_NOT_IMPLEMENTED(
        !x.defined() || !x._fw_grad(/*level=*/0).defined(), op,
        ": an operand has a tangent, but there is no forward-mode derivative (torch.func.jvp, "
        "torch.autograd.forward_ad); use reverse mode, such as torch.autograd.grad");
}

bool wants_gradient(at::TensorList operands) {
  if (!at::GradMode::is_enabled()) return false;
  for (const at::Tensor& x : operands)
    if (x.requires_grad()) return true;
  return false;
}

MessageCall call_of(const Message& message, at::TensorList operands) {
  std::map<int, int> numbers;
  const Message text = renumbered(message, numbers);
  MessageCall result{to_string(text), std::vector<at::Tensor>(numbers.size())};
  for (const auto& [from, to] : numbers) result.operands[to] = operands[from];
  return result;
}

at::Tensor sum_to_features(const at::Tensor& grad, const std::vector<int64_t>& features) {
  const int64_t rank = static_cast<int64_t>(features.size());
  at::Tensor result = grad;
  while (result.dim() - 1 > rank) result = result.sum(1);
  while (result.dim() - 1 < rank) result = result.unsqueeze(1);
  std::vector<int64_t> repeated;
  for (int64_t d = 0; d < rank; ++d)
    if (features[d] == 1 && result.sym_size(d + 1) != 1) repeated.push_back(d + 1);
  return repeated.empty() ? result : result.sum(repeated, /*keepdim=*/true);
}

at::Tensor operand_gradient(const SavedMessage& saved, int index, Target grad_target,
                            const at::Tensor& grad) {
  const int last = static_cast<int>(saved.operands.size());
  std::vector<at::Tensor> operands = saved.operands;
  operands.push_back(grad);
  std::vector<int64_t> sizes = saved.last_sizes;
  sizes.push_back(last_sizes({grad})[0]);
  const std::vector<int64_t>& features = saved.features[index];
  at::Tensor total;
  const auto add = [&](const at::Tensor& part) { total = total.defined() ? total + part : part; };
  for (const Target target :
       {Target::kSource, Target::kDestination, Target::kEdge, Target::kShared}) {
    if (!depends_on(saved.message, target, index)) continue;
    const Message d = derivative(saved.message, target, index, operand(grad_target, last), sizes);
    if (operands_of(d).empty()) continue;  // it is 0
    if (target == Target::kSource) {
      const MessageCall back = call_of(reversed(d), operands);
      add(sum_to_features(
          call_spmm(saved.out_edges, saved.in_edges, back.message, "sum", back.operands),
          features));
    } else if (target == Target::kDestination) {
      const MessageCall back = call_of(d, operands);
      add(sum_to_features(
          call_spmm(saved.in_edges, saved.out_edges, back.message, "sum", back.operands),
          features));
    } else if (target == Target::kShared) {
      const MessageCall back = call_of(d, operands);
      const at::Tensor per_row =
          call_spmm(saved.in_edges, saved.out_edges, back.message, "sum", back.operands);
      add(sum_to_features(per_row.sum(0, /*keepdim=*/true), features));
    } else {
      const MessageCall back = call_of(d, operands);
      add(call_sddmm(saved.in_edges, saved.out_edges, back.message, back.operands,
                     reduced_features(back, features)));
    }
  }
  if (!total.defined()) return total;
  // What is the same for several elements of the operand was computed once.
  std::vector<c10::SymInt> shape = {total.sym_size(0)};
  for (const int64_t size : features) shape.emplace_back(size);
  return total.expand_symint(shape);
}

void save_call(torch::autograd::AutogradContext* ctx, const char* op, const Message& message,
               at::TensorList operands, at::TensorList in_edges, at::TensorList out_edges,
               int64_t others, bool needs_out_edges, const at::Tensor& extra) {
  std::vector<bool> wanted;
  for (const at::Tensor& x : operands) wanted.push_back(x.requires_grad());
  for (const Message& read : operands_of(message)) {
    const bool back = read->target == Target::kSource && wanted[read->operand] && needs_out_edges;
    TORCH_CHECK_VALUE(!back || are_given(out_edges), op, ": the gradient of ", to_string(read),
                      " needs out_edges, found none");
  }
  const std::vector<bool> needed = needed_operands(message, wanted, operands);
  std::vector<at::Tensor> kept;
  for (size_t i = 0; i < operands.size(); ++i)
    kept.push_back(needed[i] ? operands[i] : at::Tensor());
  kept.insert(kept.end(), in_edges.begin(), in_edges.end());
  kept.insert(kept.end(), out_edges.begin(), out_edges.end());
  kept.push_back(extra);
  std::vector<int64_t> ranks, sizes;
  for (const at::Tensor& x : operands) {
    ranks.push_back(std::max<int64_t>(0, x.dim() - 1));
    for (int64_t d = 1; d < x.dim(); ++d)
      sizes.push_back(x.sym_size(d).guard_int(__FILE__, __LINE__));
  }
  ctx->saved_data["message"] = to_string(message);
  ctx->saved_data["ranks"] = ranks;
  ctx->saved_data["sizes"] = sizes;
  ctx->saved_data["in_edges"] = static_cast<int64_t>(in_edges.size());
  ctx->saved_data["others"] = others;
  ctx->save_for_backward(std::move(kept));
}

SavedMessage saved_call(torch::autograd::AutogradContext* ctx) {
  SavedMessage saved;
  saved.message = message_of("smex", ctx->saved_data["message"].toStringRef());
  const auto ranks = ctx->saved_data["ranks"].toIntVector();
  const auto sizes = ctx->saved_data["sizes"].toIntVector();
  auto size = sizes.begin();
  for (const int64_t rank : ranks) {
    saved.features.emplace_back(size, size + rank);
    saved.last_sizes.push_back(rank == 0 ? 1 : *(size + rank - 1));
    size += rank;
  }
  const auto kept = ctx->get_saved_variables();
  const auto in_edges = kept.begin() + static_cast<int64_t>(ranks.size());
  const auto out_edges = in_edges + ctx->saved_data["in_edges"].toInt();
  saved.operands.assign(kept.begin(), in_edges);
  saved.in_edges.assign(in_edges, out_edges);
  saved.out_edges.assign(out_edges, kept.end() - 1);
  saved.extra = kept.back();
  return saved;
}

torch::autograd::variable_list input_gradients(torch::autograd::AutogradContext* ctx,
                                               const SavedMessage& saved,
                                               const std::function<at::Tensor(int)>& of_operand) {
  const size_t edges = saved.in_edges.size() + saved.out_edges.size();
  const size_t others = static_cast<size_t>(ctx->saved_data["others"].toInt());
  torch::autograd::variable_list result(saved.operands.size() + edges + others);
  for (size_t i = 0; i < saved.operands.size(); ++i)
    if (ctx->needs_input_grad(i)) result[i] = of_operand(static_cast<int>(i));
  return result;
}

at::Tensor evaluate(const Message& message, at::TensorList operands) {
  if (message->op == MessageOp::kOperand) return operands[message->operand];
  if (message->op == MessageOp::kConstant) {
    const auto any = std::find_if(operands.begin(), operands.end(),
                                  [](const at::Tensor& x) { return x.defined(); });
    return at::scalar_tensor(message->value, any->options());
  }
  if (message->op == MessageOp::kSlope) return evaluate(message->b, operands);
  const at::Tensor a = evaluate(message->a, operands);
  if (message->op == MessageOp::kStraightThrough) return a;
  const bool by_number = takes_number(message->op);
  const at::Tensor b = message->b && !by_number ? evaluate(message->b, operands) : at::Tensor();
  return call_torch(message->op, a, b, by_number ? message->b->value : 0);
}

at::Tensor call_spmm(at::TensorList in_edges, at::TensorList out_edges, std::string_view message,
                     std::string_view reduce, at::TensorList operands) {
  static const auto op = operator_of<at::Tensor(at::TensorList, at::TensorList, std::string_view,
                                                std::string_view, at::TensorList)>("smex::spmm");
  return op.call(in_edges, out_edges, message, reduce, operands);
}

at::Tensor call_sddmm(at::TensorList in_edges, at::TensorList out_edges, std::string_view message,
                      at::TensorList operands, at::OptionalIntArrayRef reduce_to) {
  static const auto op =
      operator_of<at::Tensor(at::TensorList, at::TensorList, std::string_view, at::TensorList,
                             at::OptionalIntArrayRef)>("smex::sddmm");
  return op.call(in_edges, out_edges, message, operands, reduce_to);
}

}  // namespace smex::kernels
