#include <ATen/ATen.h>
#include <torch/library.h>

#include <vector>

#include "kernels/lstm/operator.h"

namespace smex::kernels {

at::Tensor lstm_product_by_torch(const at::Tensor& a, const at::Tensor& b) {
  return at::mm(a, b.t());
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
  if (hs.empty()) {
    const at::Tensor none = at::empty({0, h.size(0), h.size(1)}, x.options());
    return {none, none.clone(), at::empty(x.sizes(), x.options())};
  }
  return {at::stack(hs), at::stack(cells), at::stack(gates)};
}

Three lstm_layer_backward_by_steps(const at::Tensor& grad, const OptionalGrad& grad_cells,
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

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) {
  m.impl("lstm_product", lstm_product_by_torch);
  m.impl("lstm_layer", lstm_layer_by_steps);
  m.impl("lstm_layer_backward", lstm_layer_backward_by_steps);
}

}  // namespace smex::kernels
