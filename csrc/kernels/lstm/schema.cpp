// smex::lstm_layer: the steps of a layer of an LSTM as one operator (operator.h).
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "kernels/lstm/operator.h"

namespace smex::kernels {

void check_lstm_layer(const at::Tensor& x, const at::Tensor& h, const at::Tensor& c,
                      const at::Tensor& weight) {
  TORCH_CHECK_VALUE(x.dim() == 3 && weight.dim() == 2 && h.dim() == 2 && c.dim() == 2, kLstmLayer,
                    ": expected x [T, N, 4H], h and c [N, H], weight [4H, H], found ",
                    x.sym_sizes(), ", ", h.sym_sizes(), ", ", c.sym_sizes(), " and ",
                    weight.sym_sizes());
  const c10::SymInt width = weight.sym_size(1);
  TORCH_CHECK_VALUE(weight.sym_size(0) == 4 * width && x.sym_size(2) == 4 * width &&
                        h.sym_size(0) == x.sym_size(1) && h.sym_size(1) == width &&
                        c.sym_sizes() == h.sym_sizes(),
                    kLstmLayer, ": expected x [T, N, 4H], h and c [N, H], weight [4H, H], found ",
                    x.sym_sizes(), ", ", h.sym_sizes(), ", ", c.sym_sizes(), " and ",
                    weight.sym_sizes());
  for (const at::Tensor* other : {&h, &c, &weight}) {
    TORCH_CHECK_TYPE(other->scalar_type() == x.scalar_type(), kLstmLayer,
                     ": expected tensors of one type, found ", x.scalar_type(), " and ",
                     other->scalar_type());
  }
}

namespace {

Three lstm_layer_meta(const at::Tensor& x, const at::Tensor& h, const at::Tensor& c,
                      const at::Tensor& weight) {
  check_lstm_layer(x, h, c, weight);
  const at::SymDimVector shape{x.sym_size(0), x.sym_size(1), weight.sym_size(1)};
  const at::Tensor out = at::empty_symint(shape, x.options());
  return {out, at::empty_like(out), at::empty_symint(x.sym_sizes(), x.options())};
}

Three lstm_layer_backward_meta(const at::Tensor&, const OptionalGrad&, const at::Tensor&,
                               const at::Tensor& gates, const at::Tensor&, const at::Tensor& c) {
  return {at::empty_symint(gates.sym_sizes(), gates.options()),
          at::empty_symint(c.sym_sizes(), c.options()),
          at::empty_symint(c.sym_sizes(), c.options())};
}

at::Tensor lstm_product_meta(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK_VALUE(a.dim() == 2 && b.dim() == 2 && a.sym_size(1) == b.sym_size(1), kLstmProduct,
                    ": expected a [M, K] and b [N, K], found ", a.sym_sizes(), " and ",
                    b.sym_sizes());
  return at::empty_symint({a.sym_size(0), b.sym_size(0)}, a.options());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def("lstm_product(Tensor a, Tensor b) -> Tensor");
  m.def("lstm_layer(Tensor x, Tensor h, Tensor c, Tensor weight) -> (Tensor, Tensor, Tensor)");
  m.def(
      "lstm_layer_backward(Tensor grad, Tensor? grad_cells, Tensor weight, Tensor gates, "
      "Tensor cells, Tensor c) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("lstm_product", lstm_product_meta);
  m.impl("lstm_layer", lstm_layer_meta);
  m.impl("lstm_layer_backward", lstm_layer_backward_meta);
}

}  // namespace smex::kernels
