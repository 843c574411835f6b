#include <ATen/ATen.h>
#include <torch/library.h>

#include <vector>

#include "kernels/recurrent/operator.h"

namespace smex::kernels {
namespace {

/// The steps as [T, N, size], none of them if there is none.
at::Tensor stacked(const std::vector<at::Tensor>& steps, const at::Tensor& h, int64_t size) {
  return steps.empty() ? at::empty({0, h.size(0), size}, h.options()) : at::stack(steps);
}

}  // namespace

at::Tensor recurrent_product_by_torch(const at::Tensor& a, const at::Tensor& b,
                                      const Optional& bias) {
  return bias ? at::addmm(*bias, a, b.t()) : at::mm(a, b.t());
}

Two recurrent_gradient_by_torch(const at::Tensor& grads, const at::Tensor& a) {
  return {at::mm(grads.t(), a), grads.sum(0)};
}

Three lstm_layer_by_steps(const at::Tensor& x, const at::Tensor& h, const at::Tensor& c,
                          const at::Tensor& weight) {
  check_lstm_layer(x, h, c, weight);
  std::vector<at::Tensor> hs, cells, gates;
  at::Tensor last_h = h, last_c = c;
  for (const at::Tensor& step : x.unbind(0)) {
    const auto parts = at::addmm(step, last_h, weight.t()).chunk(4, 1);
    const at::Tensor i = parts[0].sigmoid(), f = parts[1].sigmoid();
    const at::Tensor g = parts[2].tanh(), o = parts[3].sigmoid();
    last_c = f * last_c + i * g;
    last_h = o * last_c.tanh();
    hs.push_back(last_h);
    cells.push_back(last_c);
    gates.push_back(at::cat({i, f, g, o}, 1));
  }
  const int64_t width = h.size(1);
  return {stacked(hs, h, width), stacked(cells, h, width), stacked(gates, h, 4 * width)};
}

Three lstm_layer_backward_by_steps(const at::Tensor& grad, const Optional& grad_cells,
                                   const at::Tensor& weight, const at::Tensor& gates,
                                   const at::Tensor& cells, const at::Tensor& c) {
  const int64_t steps = gates.size(0);
  at::Tensor dh = at::zeros(c.sizes(), c.options()), dc = at::zeros(c.sizes(), c.options());
  const at::Tensor result = at::empty(gates.sizes(), gates.options());
  for (int64_t t = steps - 1; t >= 0; --t) {
    const auto parts = gates[t].chunk(4, 1);
    const at::Tensor &i = parts[0], &f = parts[1], &g = parts[2], &o = parts[3];
    const at::Tensor squashed = cells[t].tanh();
    const at::Tensor before = t > 0 ? cells[t - 1] : c;
    dh = grad[t] + dh;
    if (grad_cells) dc = dc + (*grad_cells)[t];
    dc = dc + dh * o * (1 - squashed * squashed);
    const at::Tensor step = at::cat({dc * g * i * (1 - i), dc * before * f * (1 - f),
                                     dc * i * (1 - g * g), dh * squashed * o * (1 - o)},
                                    1);
    result[t].copy_(step);
    dc = dc * f;
    dh = at::mm(step, weight);
  }
  return {result, dh, dc};
}

Two gru_layer_by_steps(const at::Tensor& x, const at::Tensor& h, const at::Tensor& weight,
                       const Optional& bias) {
  check_gru_layer(x, h, weight, bias);
  std::vector<at::Tensor> hs, gates;
  at::Tensor last = h;
  for (const at::Tensor& step : x.unbind(0)) {
    const auto in = step.chunk(3, 1),
               by = recurrent_product_by_torch(last, weight, bias).chunk(3, 1);
    const at::Tensor r = (by[0] + in[0]).sigmoid(), z = (by[1] + in[1]).sigmoid();
    const at::Tensor n = (in[2] + by[2] * r).tanh();
    last = (last - n) * z + n;
    hs.push_back(last);
    gates.push_back(at::cat({r, z, n, by[2]}, 1));
  }
  return {stacked(hs, h, h.size(1)), stacked(gates, h, 4 * h.size(1))};
}

Three gru_layer_backward_by_steps(const at::Tensor& grad, const at::Tensor& weight,
                                  const at::Tensor& gates, const at::Tensor& out,
                                  const at::Tensor& h) {
  const int64_t steps = out.size(0), width = h.size(1);
  at::Tensor dh = at::zeros(h.sizes(), h.options());
  const at::Tensor dx = at::empty({steps, h.size(0), 3 * width}, h.options());
  const at::Tensor reset = at::empty(out.sizes(), h.options());
  for (int64_t t = steps - 1; t >= 0; --t) {
    const auto parts = gates[t].chunk(4, 1);
    const at::Tensor &r = parts[0], &z = parts[1], &n = parts[2], &u = parts[3];
    const at::Tensor before = t > 0 ? out[t - 1] : h;
    dh = grad[t] + dh;
    const at::Tensor dn = dh * (1 - z) * (1 - n * n);
    const at::Tensor dr = dn * u * r * (1 - r), dz = dh * (before - n) * z * (1 - z);
    dx[t].copy_(at::cat({dr, dz, dn}, 1));
    reset[t].copy_(dn * r);
    dh = dh * z + at::mm(at::cat({dr, dz, dn * r}, 1), weight);
  }
  return {dx, reset, dh};
}

at::Tensor rnn_layer_by_steps(const at::Tensor& x, const at::Tensor& h, const at::Tensor& weight,
                              bool relu) {
  check_rnn_layer(x, h, weight);
  std::vector<at::Tensor> hs;
  at::Tensor last = h;
  for (const at::Tensor& step : x.unbind(0)) {
    const at::Tensor y = at::addmm(step, last, weight.t());
    last = relu ? y.relu() : y.tanh();
    hs.push_back(last);
  }
  return stacked(hs, h, h.size(1));
}

Two rnn_layer_backward_by_steps(const at::Tensor& grad, const at::Tensor& weight,
                                const at::Tensor& out, bool relu) {
  at::Tensor dh = at::zeros({out.size(1), out.size(2)}, out.options());
  const at::Tensor dx = at::empty(out.sizes(), out.options());
  for (int64_t t = out.size(0) - 1; t >= 0; --t) {
    const at::Tensor own = grad[t] + dh;
    const at::Tensor step = relu ? own.masked_fill(out[t] <= 0, 0) : own * (1 - out[t] * out[t]);
    dx[t].copy_(step);
    dh = at::mm(step, weight);
  }
  return {dx, dh};
}

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) {
  m.impl("recurrent_product", recurrent_product_by_torch);
  m.impl("recurrent_gradient", recurrent_gradient_by_torch);
  m.impl("lstm_layer", lstm_layer_by_steps);
  m.impl("lstm_layer_backward", lstm_layer_backward_by_steps);
  m.impl("gru_layer", gru_layer_by_steps);
  m.impl("gru_layer_backward", gru_layer_backward_by_steps);
  m.impl("rnn_layer", rnn_layer_by_steps);
  m.impl("rnn_layer_backward", rnn_layer_backward_by_steps);
}

}  // namespace smex::kernels
