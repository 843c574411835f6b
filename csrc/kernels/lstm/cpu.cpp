#include <ATen/ATen.h>
#include <torch/library.h>

#include <array>

#include "kernels/lstm/operator.h"
#include "kernels/operator_of.h"
#include "kernels/pointwise/rows.h"

namespace smex::kernels {
namespace {

/// The element-wise part of a step: i, f, g, o before their functions and the cell before.
const PointwiseProgram& cell() {
  static const PointwiseProgram program = parse_pointwise(
      "sigmoid(x0); sigmoid(x1); tanh(x2); sigmoid(x3); x6 * x4 + x5 * x7; x8 * tanh(x9)"
      " > x5 x6 x7 x8 x9 x10",
      5);
  return program;
}

/// Its gradient: i, f, g, o, the cell, the cell before, the step's own gradient of h, that which
/// the next step gives, and the gradient of the cell that it gives.
const PointwiseProgram& cell_backward() {
  static const PointwiseProgram program = parse_pointwise(
      "tanh(x4); x6 + x7; x8 + x10 * x3 * (1 - x9 * x9); x11 * x2 * x0 * (1 - x0);"
      " x11 * x5 * x1 * (1 - x1); x11 * x0 * (1 - x2 * x2); x10 * x9 * x3 * (1 - x3); x11 * x1"
      " > x12 x13 x14 x15 x16",
      9);
  return program;
}

bool has_kernel(const at::Tensor& x, const at::Tensor& weight) {
  return (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble) && x.numel() > 0 &&
         weight.numel() > 0;
}

using Scalars = c10::List<std::optional<at::Scalar>>;
using LibraryLinear = at::Tensor(const at::Tensor&, const at::Tensor&,
                                 const std::optional<at::Tensor>&, std::string_view, Scalars,
                                 std::optional<std::string_view>);

/// oneDNN's product, as torch's compiler calls it; nullopt where this torch has none.
std::optional<c10::TypedOperatorHandle<LibraryLinear>> library_linear() {
  const auto found = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
  if (!found || !found->hasKernelForDispatchKey(c10::DispatchKey::CPU)) return std::nullopt;
  try {
    return found->typed<LibraryLinear>();
  } catch (const c10::Error&) {  // another torch, whose operator takes something else
    return std::nullopt;
  }
}

at::Tensor lstm_product(const at::Tensor& a, const at::Tensor& b) {
  // Smaller products take less time than the library's way into its kernels.
  constexpr int64_t kWorthLibrary = 1 << 20;
  static const auto library = library_linear();
  const bool fits = a.scalar_type() == at::kFloat && b.scalar_type() == at::kFloat &&
                    a.numel() * b.size(0) >= kWorthLibrary;
  if (!library || !fits || !at::globalContext().userEnabledMkldnn()) {
    return lstm_product_by_torch(a, b);
  }
  return library->call(a.contiguous(), b.contiguous(), std::nullopt, "none", Scalars(), "");
}

Three lstm_layer(const at::Tensor& given_x, const at::Tensor& given_h, const at::Tensor& given_c,
                 const at::Tensor& weight) {
  check_lstm_layer(given_x, given_h, given_c, weight);
  if (!has_kernel(given_x, weight)) return lstm_layer_by_steps(given_x, given_h, given_c, weight);
  const at::Tensor x = given_x.contiguous(), c = given_c.contiguous();
  const int64_t steps = x.size(0), rows = x.size(1), width = weight.size(1);
  const at::Tensor out = at::empty({steps, rows, width}, x.options());
  const at::Tensor cells = at::empty_like(out), gates = at::empty_like(x);
  const at::Tensor transposed = weight.t();
  at::Tensor last = given_h;
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), kLstmLayer, [&] {
    using T = scalar_t;
    const T* before = c.const_data_ptr<T>();
    for (int64_t t = 0; t < steps; ++t) {
      at::Tensor step = gates.select(0, t);
      at::addmm_out(step, x.select(0, t), last, transposed);
      T* const gate = step.mutable_data_ptr<T>();
      T* const own = cells.mutable_data_ptr<T>() + t * rows * width;
      last = out.select(0, t);
      const auto part = [&](int64_t k) { return gate + k * width; };
      const auto in = [&](int64_t k) { return RowMatrix<const T>{part(k), 4 * width}; };
      const auto to = [&](int64_t k) { return RowMatrix<T>{part(k), 4 * width}; };
      const std::array<RowMatrix<const T>, 5> operands{in(0), in(1), in(2), in(3), {before, width}};
      const std::array<RowMatrix<T>, 6> outs{
          to(0), to(1), to(2), to(3), {own, width}, {last.mutable_data_ptr<T>(), width}};
      run_on_rows<T>(cell(), operands, outs, rows, width);
      before = own;
    }
  });
  return {out, cells, gates};
}

Three lstm_layer_backward(const at::Tensor& given_grad, const OptionalGrad& grad_cells,
                          const at::Tensor& weight, const at::Tensor& given_gates,
                          const at::Tensor& given_cells, const at::Tensor& given_c) {
  if (!has_kernel(given_gates, weight)) {
    return lstm_layer_backward_by_steps(given_grad, grad_cells, weight, given_gates, given_cells,
                                        given_c);
  }
  const at::Tensor grad = given_grad.contiguous(), gates = given_gates.contiguous();
  const at::Tensor cells = given_cells.contiguous(), c = given_c.contiguous();
  const int64_t steps = gates.size(0), rows = gates.size(1), width = weight.size(1);
  const at::Tensor result = at::empty_like(gates);
  at::Tensor dh = at::zeros({rows, width}, gates.options()), dc = at::zeros_like(dh);
  AT_DISPATCH_FLOATING_TYPES(gates.scalar_type(), kLstmLayerBackward, [&] {
    using T = scalar_t;
    T* const to_h = dh.mutable_data_ptr<T>();
    T* const to_c = dc.mutable_data_ptr<T>();
    for (int64_t t = steps - 1; t >= 0; --t) {
      if (grad_cells) dc.add_(grad_cells->select(0, t));
      const int64_t at = t * rows * width;
      const T* const gate = gates.const_data_ptr<T>() + 4 * at;
      const T* const own = cells.const_data_ptr<T>() + at;
      const T* const before = t > 0 ? own - rows * width : c.const_data_ptr<T>();
      const at::Tensor step = result.select(0, t);
      T* const made = step.mutable_data_ptr<T>();
      const auto in = [&](int64_t k) { return RowMatrix<const T>{gate + k * width, 4 * width}; };
      const auto to = [&](int64_t k) { return RowMatrix<T>{made + k * width, 4 * width}; };
      const std::array<RowMatrix<const T>, 9> operands{in(0),
                                                       in(1),
                                                       in(2),
                                                       in(3),
                                                       {own, width},
                                                       {before, width},
                                                       {grad.const_data_ptr<T>() + at, width},
                                                       {to_h, width},
                                                       {to_c, width}};
      const std::array<RowMatrix<T>, 5> outs{to(0), to(1), to(2), to(3), {to_c, width}};
      run_on_rows<T>(cell_backward(), operands, outs, rows, width);
      at::mm_out(dh, step, weight);
    }
  });
  return {result, dh, dc};
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("lstm_product", lstm_product);
  m.impl("lstm_layer", lstm_layer);
  m.impl("lstm_layer_backward", lstm_layer_backward);
}

}  // namespace smex::kernels
