#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/message/gradients.h"
#include "kernels/operator_of.h"
#include "kernels/tree_lstm/operator.h"

namespace smex::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Two call_tree_lstm(const at::Tensor& gates, at::TensorList cells, at::IntArrayRef places) {
  static const auto op = operator_of<decltype(empty_cell)>(kTreeLstm);
  return op.call(gates, cells, places);
}

Two call_tree_lstm_backward(const at::Tensor& grad_h, const at::Tensor& grad_c,
                            const at::Tensor& gates, at::TensorList cells, const at::Tensor& c,
                            at::IntArrayRef places) {
  using Signature = Two(const at::Tensor&, const at::Tensor&, const at::Tensor&, at::TensorList,
                        const at::Tensor&, at::IntArrayRef);
  static const auto op = operator_of<Signature>(kTreeLstmBackward);
  return op.call(grad_h, grad_c, gates, cells, c, places);
}

class TreeLstmFunction : public torch::autograd::Function<TreeLstmFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& gates, at::TensorList cells,
                               at::IntArrayRef places) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const auto [h, c] = call_tree_lstm(gates, cells, places);
    variable_list kept{gates, c};
    kept.insert(kept.end(), cells.begin(), cells.end());
    ctx->save_for_backward(std::move(kept));
    ctx->saved_data["places"] = places.vec();
    return {h, c};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list kept = ctx->get_saved_variables();
    const at::Tensor &gates = kept[0], &c = kept[1];
    const at::TensorList cells = at::TensorList(kept).slice(2);
    const auto given = [&](const at::Tensor& grad) {
      return grad.defined() ? grad : at::zeros_like(c);
    };
    const auto [grad_gates, grad_cells] = call_tree_lstm_backward(
        given(grads[0]), given(grads[1]), gates, cells, c, ctx->saved_data["places"].toIntVector());
    variable_list wanted{grad_gates};
    for (size_t cell = 0; cell < cells.size(); ++cell) {
      wanted.push_back(grad_cells.select(1, static_cast<int64_t>(cell)));
    }
    wanted.emplace_back();  // of the places
    return wanted;
  }
};

Two tree_lstm_autograd(const at::Tensor& gates, at::TensorList cells, at::IntArrayRef places) {
  variable_list operands{gates};
  operands.insert(operands.end(), cells.begin(), cells.end());
  refuse_tangents(kTreeLstm, operands);
  if (wants_gradient(operands)) {
    const variable_list made = TreeLstmFunction::apply(gates, cells, places);
    return {made[0], made[1]};
  }
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_tree_lstm(gates, cells, places);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, Autograd, m) { m.impl("tree_lstm", tree_lstm_autograd); }

}  // namespace smex::kernels
