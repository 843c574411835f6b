// What the files that register these operators share.
//
// A recurrent layer over T steps of N samples, of H hidden numbers. `x` is the part of the gates
// that the layer's input and its biases make, and u[t] = h[t - 1] weight^T.
//
//   LSTM   i, f, g, o = sigmoid or, of g, tanh (x[t] + u[t])
//          cells[t] = f cells[t - 1] + i g,  h[t] = o tanh(cells[t])
//   GRU    u[t] + bias in place of u[t], which is 0 without one
//          r, z = sigmoid(x[t] + u[t]),  n = tanh(x_n[t] + r u_n[t])
//          h[t] = (h[t - 1] - n) z + n
//   RNN    h[t] = tanh or, with `relu`, relu (x[t] + u[t])
//
// lstm_layer(x [T, N, 4H], h [N, H], c [N, H], weight [4H, H])
//     -> h [T, N, H], cells [T, N, H], gates i, f, g, o [T, N, 4H]
// lstm_layer_backward(grad [T, N, H], grad_cells [T, N, H]?, weight, gates, cells, c)
//     -> gradients of x, of h and of c
// gru_layer(x [T, N, 3H], h [N, H], weight [3H, H], bias [3H]?)
//     -> h [T, N, H], gates r, z, n and u_n [T, N, 4H]
// gru_layer_backward(grad [T, N, H], weight, gates, out, h)
//     -> gradients of x, of u_n [T, N, H] and of h
// rnn_layer(x [T, N, H], h [N, H], weight [H, H], relu) -> h [T, N, H]
// rnn_layer_backward(grad [T, N, H], weight, out, relu) -> gradients of x and of h
//
// recurrent_product(a [M, K], b [N, K], bias [N]?) -> a b^T + bias [M, N], by the library that
// torch's own LSTM calls
// recurrent_gradient(grads [M, N], a [M, K]) -> grads^T a [N, K] and the sum of grads' rows [N],
// the gradients of b and of the bias
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace smex::kernels {

constexpr const char* kLstmLayer = "smex::lstm_layer";
constexpr const char* kLstmLayerBackward = "smex::lstm_layer_backward";
constexpr const char* kGruLayer = "smex::gru_layer";
constexpr const char* kGruLayerBackward = "smex::gru_layer_backward";
constexpr const char* kRnnLayer = "smex::rnn_layer";
constexpr const char* kRnnLayerBackward = "smex::rnn_layer_backward";
constexpr const char* kRecurrentProduct = "smex::recurrent_product";
constexpr const char* kRecurrentGradient = "smex::recurrent_gradient";

using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Optional = std::optional<at::Tensor>;

void check_lstm_layer(const at::Tensor& x, const at::Tensor& h, const at::Tensor& c,
                      const at::Tensor& weight);
void check_gru_layer(const at::Tensor& x, const at::Tensor& h, const at::Tensor& weight,
                     const Optional& bias);
void check_rnn_layer(const at::Tensor& x, const at::Tensor& h, const at::Tensor& weight);

void check_recurrent_gradient(const at::Tensor& grads, const at::Tensor& a);

/// By ATen's operators, for any device and type.
at::Tensor recurrent_product_by_torch(const at::Tensor& a, const at::Tensor& b,
                                      const Optional& bias);
Two recurrent_gradient_by_torch(const at::Tensor& grads, const at::Tensor& a);
Three lstm_layer_by_steps(const at::Tensor& x, const at::Tensor& h, const at::Tensor& c,
                          const at::Tensor& weight);
Three lstm_layer_backward_by_steps(const at::Tensor& grad, const Optional& grad_cells,
                                   const at::Tensor& weight, const at::Tensor& gates,
                                   const at::Tensor& cells, const at::Tensor& c);
Two gru_layer_by_steps(const at::Tensor& x, const at::Tensor& h, const at::Tensor& weight,
                       const Optional& bias);
Three gru_layer_backward_by_steps(const at::Tensor& grad, const at::Tensor& weight,
                                  const at::Tensor& gates, const at::Tensor& out,
                                  const at::Tensor& h);
at::Tensor rnn_layer_by_steps(const at::Tensor& x, const at::Tensor& h, const at::Tensor& weight,
                              bool relu);
Two rnn_layer_backward_by_steps(const at::Tensor& grad, const at::Tensor& weight,
                                const at::Tensor& out, bool relu);

}  // namespace smex::kernels
