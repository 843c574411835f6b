// What the files that register these operators share.
//
// A layer of an LSTM over T steps of N samples, of H hidden numbers, whose gates i, f, g, o lie
// side by side. With `x` the part of the gates that the layer's input and its biases make:
//
//   gates[t] = sigmoid or, of g, tanh (x[t] + h[t - 1] weight^T)
//   cells[t] = f[t] cells[t - 1] + i[t] g[t]
//   h[t]     = o[t] tanh(cells[t])
//
// lstm_layer(x [T, N, 4H], h [N, H], c [N, H], weight [4H, H])
//     -> h [T, N, H], cells [T, N, H], gates [T, N, 4H]
// lstm_layer_backward(grad [T, N, H], grad_cells [T, N, H]?, weight, gates, cells, c)
//     -> gradients of x, of h and of c
// lstm_product(a [M, K], b [N, K]) -> a b^T [M, N], by the library that torch's own LSTM calls
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace smex::kernels {

constexpr const char* kLstmLayer = "smex::lstm_layer";
constexpr const char* kLstmLayerBackward = "smex::lstm_layer_backward";

constexpr const char* kLstmProduct = "smex::lstm_product";

using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using OptionalGrad = std::optional<at::Tensor>;

at::Tensor lstm_product_by_torch(const at::Tensor& a, const at::Tensor& b);

void check_lstm_layer(const at::Tensor& x, const at::Tensor& h, const at::Tensor& c,
                      const at::Tensor& weight);

/// By ATen's operators, for any device and type.
Three lstm_layer_by_steps(const at::Tensor& x, const at::Tensor& h, const at::Tensor& c,
                          const at::Tensor& weight);
Three lstm_layer_backward_by_steps(const at::Tensor& grad, const OptionalGrad& grad_cells,
                                   const at::Tensor& weight, const at::Tensor& gates,
                                   const at::Tensor& cells, const at::Tensor& c);

}  // namespace smex::kernels
