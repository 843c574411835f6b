#include <ATen/TensorOperators.h>
#include <ATen/ops/diff.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kernels/message/dispatch.h"
#include "kernels/message/gradients.h"
#include "kernels/message/operands.h"
#include "kernels/spmm/operator.h"
#include "kernels/spmm/winner_gradient.h"

namespace smex::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class SpmmFunction : public torch::autograd::Function<SpmmFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, at::TensorList operands, at::TensorList in_edges,
                            at::TensorList out_edges, const std::string& message,
                            const std::string& reduce) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const at::Tensor out = call_spmm(in_edges, out_edges, message, reduce, operands);
    save_call(ctx, kSpmm, message_of(kSpmm, message), operands, in_edges, out_edges,
              /*others=*/2, /*needs_out_edges=*/true);
    ctx->saved_data["mean"] = reduce == "mean";
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const SavedMessage saved = saved_call(ctx);
    at::Tensor grad = grads[0];
    if (ctx->saved_data["mean"].toBool()) {
      // A degree may be more than a half can hold.
      const at::Tensor degrees =
          saved.in_edges[0].diff().clamp_min(1).to(sum_type(grad.scalar_type()));
      std::vector<c10::SymInt> shape(grad.dim(), 1);
      shape[0] = grad.sym_size(0);
      const at::Tensor divisor = degrees.view_symint(shape);
      if (is_source_copy(saved.message) && degrees.scalar_type() == grad.scalar_type())
        return input_gradients(ctx, saved,
                               [&](int) { return gradient_of_copied_mean(saved, grad, divisor); });
      grad = (grad / divisor).to(grad.scalar_type());
    }
    return input_gradients(
        ctx, saved, [&](int i) { return operand_gradient(saved, i, Target::kDestination, grad); });
  }

 private:
  static bool is_source_copy(const Message& message) {
    return message->op == MessageOp::kOperand && message->target == Target::kSource;
  }

  /// The division is part of the kernel: no gradient is stored for it.
  static at::Tensor gradient_of_copied_mean(const SavedMessage& saved, const at::Tensor& grad,
                                            const at::Tensor& divisor) {
    const Message back =
        call(MessageOp::kMul, operand(Target::kSource, 0), operand(Target::kSource, 1));
    return call_spmm(saved.out_edges, saved.in_edges, to_string(back), "sum",
                     {grad, divisor.reciprocal()});
  }
};

class ExtremumFunction : public torch::autograd::Function<ExtremumFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, at::TensorList operands,
                               at::TensorList in_edges, const std::string& message,
                               const std::string& reduce, bool zero_empty, at::IntArrayRef offset) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto [out, winner] = call_extremum(in_edges, {}, message, reduce, operands, zero_empty,
                                             /*need_winner=*/true, offset);
    save_call(ctx, kExtremum, message_of(kExtremum, message), operands, in_edges, {}, /*others=*/4,
              /*needs_out_edges=*/false, winner);
    ctx->saved_data["sources"] = num_sources(message_of(kExtremum, message), operands);
    return {out, winner};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const SavedMessage saved = saved_call(ctx);
    const c10::SymInt sources = ctx->saved_data["sources"].toSymInt();
    return input_gradients(ctx, saved, [&](int i) {
      return winner_gradient(saved, i, saved.extra, sources, grads[0]);
    });
  }

 private:
  // Rows of the operands that belong to sources; 0 where there is none.
  static c10::SymInt num_sources(const Message& message, at::TensorList operands) {
    for (const Message& read : operands_of(message))
      if (read->target == Target::kSource) return operands[read->operand].sym_size(0);
    return 0;
  }
};

at::Tensor spmm_autograd(at::TensorList in_edges, at::TensorList out_edges,
                         std::string_view message, std::string_view reduce,
                         at::TensorList operands) {
  refuse_tangents(kSpmm, operands);
  if (wants_gradient(operands))
    return SpmmFunction::apply(operands, in_edges, out_edges, std::string(message),
                               std::string(reduce));
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_spmm(in_edges, out_edges, message, reduce, operands);
}

std::tuple<at::Tensor, at::Tensor> extremum_autograd(at::TensorList in_edges,
                                                     at::TensorList out_edges,
                                                     std::string_view message,
                                                     std::string_view reduce,
                                                     at::TensorList operands, bool zero_empty,
                                                     bool need_winner, at::IntArrayRef offset) {
  refuse_tangents(kExtremum, operands);
  if (wants_gradient(operands)) {
    const variable_list result = ExtremumFunction::apply(operands, in_edges, std::string(message),
                                                         std::string(reduce), zero_empty, offset);
    return {result[0], result[1]};
  }
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_extremum(in_edges, out_edges, message, reduce, operands, zero_empty, need_winner,
                       offset);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, Autograd, m) {
  m.impl("spmm", spmm_autograd);
  m.impl("spmm_extremum", extremum_autograd);
}

}  // namespace smex::kernels
