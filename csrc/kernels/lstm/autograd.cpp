#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kernels/lstm/operator.h"
#include "kernels/operator_of.h"

namespace smex::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  static const auto op = operator_of<decltype(lstm_product_by_torch)>(kLstmProduct);
  return op.call(a, b);
}

Three call_layer(const at::Tensor& x, const at::Tensor& h, const at::Tensor& c,
                 const at::Tensor& weight) {
  static const auto op = operator_of<decltype(lstm_layer_by_steps)>(kLstmLayer);
  return op.call(x, h, c, weight);
}

struct LstmLayer : torch::autograd::Function<LstmLayer> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& h,
                               const at::Tensor& c, const at::Tensor& weight) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, cells, gates] = call_layer(x, h, c, weight);
    ctx->set_materialize_grads(false);
    ctx->mark_non_differentiable({gates});
    ctx->save_for_backward({h, c, weight, out, cells, gates});
    return {out, cells, gates};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const auto op = operator_of<decltype(lstm_layer_backward_by_steps)>(kLstmLayerBackward);
    TORCH_CHECK(!at::GradMode::is_enabled(), kLstmLayer, ": has no second derivative");
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &h = saved[0], &c = saved[1], &weight = saved[2], &out = saved[3];
    if (!grads[0].defined() && !grads[1].defined()) return variable_list(4);
    const at::Tensor grad = grads[0].defined() ? grads[0] : at::zeros_like(out);
    const OptionalGrad grad_cells = grads[1].defined() ? OptionalGrad(grads[1]) : std::nullopt;
    const auto [dx, dh, dc] = op.call(grad, grad_cells, weight, saved[5], saved[4], c);
    at::Tensor dw;
    if (ctx->needs_input_grad(3)) {
      const int64_t width = weight.size(1);
      const at::Tensor before = at::cat({h.unsqueeze(0), out.slice(0, 0, out.size(0) - 1)}, 0);
      dw = product(dx.reshape({-1, 4 * width}).t().contiguous(), before.reshape({-1, width}).t());
    }
    return {dx, dh, dc, dw};
  }
};

struct LstmProduct : torch::autograd::Function<LstmProduct> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& a, const at::Tensor& b) {
    const at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({a, b});
    return product(a, b);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    variable_list result(2);
    if (ctx->needs_input_grad(0)) result[0] = product(grads[0], saved[1].t());
    if (ctx->needs_input_grad(1)) result[1] = product(grads[0].t().contiguous(), saved[0].t());
    return result;
  }
};

at::Tensor lstm_product_autograd(const at::Tensor& a, const at::Tensor& b) {
  return LstmProduct::apply(a, b);
}

Three lstm_layer_autograd(const at::Tensor& x, const at::Tensor& h, const at::Tensor& c,
                          const at::Tensor& weight) {
  const variable_list made = LstmLayer::apply(x, h, c, weight);
  return {made[0], made[1], made[2]};
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, Autograd, m) {
  m.impl("lstm_product", lstm_product_autograd);
  m.impl("lstm_layer", lstm_layer_autograd);
}

}  // namespace smex::kernels
