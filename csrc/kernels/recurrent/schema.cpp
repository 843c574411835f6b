// smex::lstm_layer and others: the steps of a recurrent layer as one operator (operator.h).
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "kernels/recurrent/operator.h"

namespace smex::kernels {
namespace {

/// Checks x [T, N, gates H], weight [gates H, H] and states [N, H]; `expected` says so in words.
void check_layer(const char* name, int64_t gates, const char* expected, const at::Tensor& x,
                 at::ArrayRef<at::Tensor> states, const at::Tensor& weight) {
  const auto check = [&](bool fits) {
    if (fits) return;
    std::ostringstream found;
    found << x.sym_sizes();
    for (const at::Tensor& state : states) found << ", " << state.sym_sizes();
    TORCH_CHECK_VALUE(false, name, ": expected ", expected, ", found ", found.str(), " and ",
                      weight.sym_sizes());
  };
  check(x.dim() == 3 && weight.dim() == 2);
  const c10::SymInt width = weight.sym_size(1);
  check(weight.sym_size(0) == gates * width && x.sym_size(2) == gates * width);
  for (const at::Tensor& state : states)
    check(state.dim() == 2 && state.sym_size(0) == x.sym_size(1) && state.sym_size(1) == width);
  const auto check_type = [&](const at::Tensor& other) {
    TORCH_CHECK_TYPE(other.scalar_type() == x.scalar_type(), name,
                     ": expected tensors of one type, found ", x.scalar_type(), " and ",
                     other.scalar_type());
  };
  for (const at::Tensor& state : states) check_type(state);
  check_type(weight);
}

}  // namespace

void check_lstm_layer(const at::Tensor& x, const at::Tensor& h, const at::Tensor& c,
                      const at::Tensor& weight) {
  check_layer(kLstmLayer, 4, "x [T, N, 4H], h and c [N, H], weight [4H, H]", x, {h, c}, weight);
}

void check_gru_layer(const at::Tensor& x, const at::Tensor& h, const at::Tensor& weight,
                     const Optional& bias) {
  check_layer(kGruLayer, 3, "x [T, N, 3H], h [N, H], weight [3H, H]", x, {h}, weight);
  if (!bias) return;
  TORCH_CHECK_VALUE(bias->dim() == 1 && bias->sym_size(0) == weight.sym_size(0), kGruLayer,
                    ": expected bias [3H] for weight [3H, H], found ", bias->sym_sizes(), " and ",
                    weight.sym_sizes());
  TORCH_CHECK_TYPE(bias->scalar_type() == x.scalar_type(), kGruLayer,
                   ": expected tensors of one type, found ", x.scalar_type(), " and ",
                   bias->scalar_type());
}

void check_rnn_layer(const at::Tensor& x, const at::Tensor& h, const at::Tensor& weight) {
  check_layer(kRnnLayer, 1, "x [T, N, H], h [N, H], weight [H, H]", x, {h}, weight);
}

void check_recurrent_gradient(const at::Tensor& grads, const at::Tensor& a) {
  TORCH_CHECK_VALUE(grads.dim() == 2 && a.dim() == 2 && grads.sym_size(0) == a.sym_size(0),
                    kRecurrentGradient, ": expected grads [M, N] and a [M, K], found ",
                    grads.sym_sizes(), " and ", a.sym_sizes());
  TORCH_CHECK_TYPE(grads.scalar_type() == a.scalar_type(), kRecurrentGradient,
                   ": expected tensors of one type, found ", grads.scalar_type(), " and ",
                   a.scalar_type());
}

namespace {

at::Tensor like(const at::Tensor& x) { return at::empty_symint(x.sym_sizes(), x.options()); }

/// [T, N, times H] for states [N, H].
at::Tensor over_time(const at::Tensor& x, const at::Tensor& h, int64_t times) {
  return at::empty_symint({x.sym_size(0), x.sym_size(1), h.sym_size(1) * times}, x.options());
}

Three lstm_layer_meta(const at::Tensor& x, const at::Tensor& h, const at::Tensor& c,
                      const at::Tensor& weight) {
  check_lstm_layer(x, h, c, weight);
  return {over_time(x, h, 1), over_time(x, h, 1), like(x)};
}

Three lstm_layer_backward_meta(const at::Tensor&, const Optional&, const at::Tensor&,
                               const at::Tensor& gates, const at::Tensor&, const at::Tensor& c) {
  return {like(gates), like(c), like(c)};
}

Two gru_layer_meta(const at::Tensor& x, const at::Tensor& h, const at::Tensor& weight,
                   const Optional& bias) {
  check_gru_layer(x, h, weight, bias);
  return {over_time(x, h, 1), over_time(x, h, 4)};
}

Three gru_layer_backward_meta(const at::Tensor& grad, const at::Tensor&, const at::Tensor&,
                              const at::Tensor&, const at::Tensor& h) {
  return {over_time(grad, h, 3), over_time(grad, h, 1), like(h)};
}

at::Tensor rnn_layer_meta(const at::Tensor& x, const at::Tensor& h, const at::Tensor& weight,
                          bool) {
  check_rnn_layer(x, h, weight);
  return like(x);
}

Two rnn_layer_backward_meta(const at::Tensor& grad, const at::Tensor&, const at::Tensor& out,
                            bool) {
  return {like(out), at::empty_symint({out.sym_size(1), out.sym_size(2)}, grad.options())};
}

at::Tensor recurrent_product_meta(const at::Tensor& a, const at::Tensor& b, const Optional& bias) {
  TORCH_CHECK_VALUE(a.dim() == 2 && b.dim() == 2 && a.sym_size(1) == b.sym_size(1),
                    kRecurrentProduct, ": expected a [M, K] and b [N, K], found ", a.sym_sizes(),
                    " and ", b.sym_sizes());
  TORCH_CHECK_VALUE(!bias || (bias->dim() == 1 && bias->sym_size(0) == b.sym_size(0)),
                    kRecurrentProduct, ": expected bias [N] for b [N, K], found ",
                    bias->sym_sizes(), " and ", b.sym_sizes());
  return at::empty_symint({a.sym_size(0), b.sym_size(0)}, a.options());
}

Two recurrent_gradient_meta(const at::Tensor& grads, const at::Tensor& a) {
  check_recurrent_gradient(grads, a);
  return {at::empty_symint({grads.sym_size(1), a.sym_size(1)}, a.options()),
          at::empty_symint({grads.sym_size(1)}, a.options())};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def("recurrent_product(Tensor a, Tensor b, Tensor? bias=None) -> Tensor");
  m.def("recurrent_gradient(Tensor grads, Tensor a) -> (Tensor, Tensor)");
  m.def("lstm_layer(Tensor x, Tensor h, Tensor c, Tensor weight) -> (Tensor, Tensor, Tensor)");
  m.def(
      "lstm_layer_backward(Tensor grad, Tensor? grad_cells, Tensor weight, Tensor gates, "
      "Tensor cells, Tensor c) -> (Tensor, Tensor, Tensor)");
  m.def("gru_layer(Tensor x, Tensor h, Tensor weight, Tensor? bias=None) -> (Tensor, Tensor)");
  m.def(
      "gru_layer_backward(Tensor grad, Tensor weight, Tensor gates, Tensor out, Tensor h) "
      "-> (Tensor, Tensor, Tensor)");
  m.def("rnn_layer(Tensor x, Tensor h, Tensor weight, bool relu=False) -> Tensor");
  m.def(
      "rnn_layer_backward(Tensor grad, Tensor weight, Tensor out, bool relu=False) "
      "-> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("recurrent_product", recurrent_product_meta);
  m.impl("recurrent_gradient", recurrent_gradient_meta);
  m.impl("lstm_layer", lstm_layer_meta);
  m.impl("lstm_layer_backward", lstm_layer_backward_meta);
  m.impl("gru_layer", gru_layer_meta);
  m.impl("gru_layer_backward", gru_layer_backward_meta);
  m.impl("rnn_layer", rnn_layer_meta);
  m.impl("rnn_layer_backward", rnn_layer_backward_meta);
}

}  // namespace smex::kernels
