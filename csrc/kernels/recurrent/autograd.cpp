#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kernels/operator_of.h"
#include "kernels/recurrent/operator.h"

namespace smex::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor product(const at::Tensor& a, const at::Tensor& b, const Optional& bias = std::nullopt) {
  static const auto op = operator_of<decltype(recurrent_product_by_torch)>(kRecurrentProduct);
  return op.call(a, b, bias);
}

Two gradient(const at::Tensor& grads, const at::Tensor& a) {
  static const auto op = operator_of<decltype(recurrent_gradient_by_torch)>(kRecurrentGradient);
  return op.call(grads, a);
}

/// Of a bias that is not given autograd has no place to ask about.
constexpr const char* kHasBias = "has_bias";

void refuse_second_derivative(const char* name) {
  TORCH_CHECK(!at::GradMode::is_enabled(), name, ": has no second derivative");
}

/// The hidden states that the steps' products read, [T N, H].
at::Tensor states_before(const at::Tensor& h, const at::Tensor& out) {
  return at::cat({h.unsqueeze(0), out.slice(0, 0, out.size(0) - 1)}, 0).reshape({-1, h.size(1)});
}

/// The gradients of a weight and a bias from those of the gates [T, N, G].
Two weight_gradient(const at::Tensor& gates, const at::Tensor& before) {
  return gradient(gates.reshape({-1, gates.size(2)}), before);
}

struct LstmLayer : torch::autograd::Function<LstmLayer> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& h,
                               const at::Tensor& c, const at::Tensor& weight) {
    static const auto op = operator_of<decltype(lstm_layer_by_steps)>(kLstmLayer);
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, cells, gates] = op.call(x, h, c, weight);
    ctx->set_materialize_grads(false);
    ctx->mark_non_differentiable({gates});
    ctx->save_for_backward({h, c, weight, out, cells, gates});
    return {out, cells, gates};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const auto op = operator_of<decltype(lstm_layer_backward_by_steps)>(kLstmLayerBackward);
    refuse_second_derivative(kLstmLayer);
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &h = saved[0], &c = saved[1], &weight = saved[2], &out = saved[3];
    if (!grads[0].defined() && !grads[1].defined()) return variable_list(4);
    const at::Tensor grad = grads[0].defined() ? grads[0] : at::zeros_like(out);
    const Optional grad_cells = grads[1].defined() ? Optional(grads[1]) : std::nullopt;
    const auto [dx, dh, dc] = op.call(grad, grad_cells, weight, saved[5], saved[4], c);
    at::Tensor dw;
    if (ctx->needs_input_grad(3)) dw = std::get<0>(weight_gradient(dx, states_before(h, out)));
    return {dx, dh, dc, dw};
  }
};

struct GruLayer : torch::autograd::Function<GruLayer> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& h,
                               const at::Tensor& weight, const Optional& bias) {
    static const auto op = operator_of<decltype(gru_layer_by_steps)>(kGruLayer);
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, gates] = op.call(x, h, weight, bias);
    ctx->set_materialize_grads(false);
    ctx->mark_non_differentiable({gates});
    ctx->save_for_backward({h, weight, out, gates});
    ctx->saved_data[kHasBias] = bias.has_value();
    return {out, gates};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const auto op = operator_of<decltype(gru_layer_backward_by_steps)>(kGruLayerBackward);
    refuse_second_derivative(kGruLayer);
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &h = saved[0], &weight = saved[1], &out = saved[2];
    if (!grads[0].defined()) return variable_list(4);
    const auto [dx, reset, dh] = op.call(grads[0], weight, saved[3], out, h);
    at::Tensor dw, dbias;
    const bool wants_bias = ctx->saved_data[kHasBias].toBool() && ctx->needs_input_grad(3);
    if (ctx->needs_input_grad(2) || wants_bias) {
      const at::Tensor before = states_before(h, out);
      const auto [of_gates, sums] = weight_gradient(dx.slice(2, 0, 2 * h.size(1)), before);
      const auto [of_reset, reset_sums] = weight_gradient(reset, before);
      dw = at::cat({of_gates, of_reset}, 0);
      if (wants_bias) dbias = at::cat({sums, reset_sums}, 0);
    }
    return {dx, dh, dw, dbias};
  }
};

struct RnnLayer : torch::autograd::Function<RnnLayer> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& h,
                            const at::Tensor& weight, bool relu) {
    static const auto op = operator_of<decltype(rnn_layer_by_steps)>(kRnnLayer);
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor out = op.call(x, h, weight, relu);
    ctx->saved_data["relu"] = relu;
    ctx->save_for_backward({h, weight, out});
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const auto op = operator_of<decltype(rnn_layer_backward_by_steps)>(kRnnLayerBackward);
    refuse_second_derivative(kRnnLayer);
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &h = saved[0], &weight = saved[1], &out = saved[2];
    const auto [dx, dh] = op.call(grads[0], weight, out, ctx->saved_data["relu"].toBool());
    at::Tensor dw;
    if (ctx->needs_input_grad(2)) dw = std::get<0>(weight_gradient(dx, states_before(h, out)));
    return {dx, dh, dw, at::Tensor()};
  }
};

struct RecurrentProduct : torch::autograd::Function<RecurrentProduct> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& a, const at::Tensor& b,
                            const Optional& bias) {
    const at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({a, b});
    ctx->saved_data[kHasBias] = bias.has_value();
    return product(a, b, bias);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    variable_list result(3);
    if (ctx->needs_input_grad(0)) result[0] = product(grads[0], saved[1].t());
    const bool wants_bias = ctx->saved_data[kHasBias].toBool() && ctx->needs_input_grad(2);
    if (ctx->needs_input_grad(1) || wants_bias) {
      const auto [of_b, sums] = gradient(grads[0], saved[0]);
      result[1] = of_b;
      if (wants_bias) result[2] = sums;
    }
    return result;
  }
};

at::Tensor recurrent_product_autograd(const at::Tensor& a, const at::Tensor& b,
                                      const Optional& bias) {
  return RecurrentProduct::apply(a, b, bias);
}

Three lstm_layer_autograd(const at::Tensor& x, const at::Tensor& h, const at::Tensor& c,
                          const at::Tensor& weight) {
  const variable_list made = LstmLayer::apply(x, h, c, weight);
  return {made[0], made[1], made[2]};
}

Two gru_layer_autograd(const at::Tensor& x, const at::Tensor& h, const at::Tensor& weight,
                       const Optional& bias) {
  const variable_list made = GruLayer::apply(x, h, weight, bias);
  return {made[0], made[1]};
}

at::Tensor rnn_layer_autograd(const at::Tensor& x, const at::Tensor& h, const at::Tensor& weight,
                              bool relu) {
  return RnnLayer::apply(x, h, weight, relu);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, Autograd, m) {
  m.impl("recurrent_product", recurrent_product_autograd);
  m.impl("lstm_layer", lstm_layer_autograd);
  m.impl("gru_layer", gru_layer_autograd);
  m.impl("rnn_layer", rnn_layer_autograd);
}

}  // namespace smex::kernels
