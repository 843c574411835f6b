#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>

#include "kernels/operator_of.h"
#include "kernels/recurrent/operator.h"
#include "kernels/recurrent/recurrent.h"

namespace smex::kernels {
namespace {

/// Multiplications that are worth a thread.
constexpr int64_t kWorthThread = 1 << 18;

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

at::Tensor recurrent_product(const at::Tensor& a, const at::Tensor& b, const Optional& bias) {
  // Smaller products take less time than the library's way into its kernels.
  constexpr int64_t kWorthLibrary = 1 << 20;
  static const auto library = library_linear();
  const bool fits = a.scalar_type() == at::kFloat && b.scalar_type() == at::kFloat &&
                    a.numel() * b.size(0) >= kWorthLibrary;
  if (!library || !fits || !at::globalContext().userEnabledMkldnn()) {
    return recurrent_product_by_torch(a, b, bias);
  }
  return library->call(a.contiguous(), b.contiguous(), bias, "none", Scalars(), "");
}

bool has_kernel(const at::Tensor& x, const at::Tensor& weight) {
  return (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble) && x.numel() > 0 &&
         weight.numel() > 0;
}

/// A matrix whose rows are contiguous.
at::Tensor with_rows(const at::Tensor& x) {
  return x.stride(1) == 1 && x.stride(0) >= x.size(1) ? x : x.contiguous();
}

Two recurrent_gradient(const at::Tensor& given_grads, const at::Tensor& given_a) {
  check_recurrent_gradient(given_grads, given_a);
  if (!has_kernel(given_grads, given_a)) {
    return recurrent_gradient_by_torch(given_grads, given_a);
  }
  const at::Tensor grads = with_rows(given_grads), a = with_rows(given_a);
  const int64_t columns = grads.size(1), width = a.size(1);
  const at::Tensor weight = at::empty({columns, width}, a.options());
  const at::Tensor bias = at::empty({columns}, a.options());
  AT_DISPATCH_FLOATING_TYPES(a.scalar_type(), kRecurrentGradient, [&] {
    using T = scalar_t;
    const WeightGradient<T> task{grads.size(0),
                                 width,
                                 grads.const_data_ptr<T>(),
                                 grads.stride(0),
                                 a.const_data_ptr<T>(),
                                 a.stride(0),
                                 weight.mutable_data_ptr<T>(),
                                 bias.mutable_data_ptr<T>()};
    const int64_t grain = std::max<int64_t>(1, kWorthThread / (grads.size(0) * width));
    at::parallel_for(0, columns, grain, [&](int64_t begin, int64_t end) {
      const at::Tensor packed =
          at::detail::empty_cpu({SMEX_PICK(gradient_numbers<T>)(width)}, a.options());
      SMEX_PICK(run_gradient<T>)(task, Span{begin, end}, packed.mutable_data_ptr<T>());
    });
  });
  return {weight, bias};
}

/// A matrix as a kernel reads it.
template <typename T, typename Pack>
at::Tensor packed(Cell cell, const at::Tensor& weight, const Panels& form, const Pack& pack) {
  const at::Tensor matrix = weight.contiguous();
  const at::Tensor result = at::empty({form.numbers}, weight.options());
  const T* const from = matrix.const_data_ptr<T>();
  T* const to = result.mutable_data_ptr<T>();
  const int64_t each = std::max<int64_t>(1, form.numbers / form.panels);
  at::parallel_for(
      0, form.panels, std::max<int64_t>(1, kWorthThread / each),
      [&](int64_t begin, int64_t end) { pack(cell, weight.size(1), from, to, Span{begin, end}); });
  return result;
}

/// Runs `steps` steps on threads: each takes rows through all steps, or, where these would be so
/// few that most of the time is spent on reading the weight, columns of one step after the other.
template <typename Run>
void share(int64_t steps, int64_t rows, const Panels& form, const Run& run) {
  constexpr int64_t kFewRows = 4;
  const int64_t threads = at::in_parallel_region() ? 1 : at::get_num_threads();
  const int64_t each = (rows + threads - 1) / threads;
  const int64_t work = rows * form.numbers;
  if (threads == 1 || work * steps < 2 * kWorthThread) {
    run(Span{0, steps}, Span{0, rows}, Span{0, form.panels});
  } else if (each >= kFewRows || work < 2 * kWorthThread) {
    at::parallel_for(0, rows, std::max(each, kWorthThread / (form.numbers * steps)),
                     [&](int64_t begin, int64_t end) {
                       run(Span{0, steps}, Span{begin, end}, Span{0, form.panels});
                     });
  } else {
    const int64_t grain = std::max<int64_t>(1, kWorthThread / (work / form.panels));
    for (int64_t t = 0; t < steps; ++t) {
      at::parallel_for(0, form.panels, grain, [&](int64_t begin, int64_t end) {
        run(Span{t, t + 1}, Span{0, rows}, Span{begin, end});
      });
    }
  }
}

template <typename T>
void run_task(LayerForward<T> task, const at::Tensor& weight) {
  const Panels form = SMEX_PICK(forward_panels<T>)(task.cell, task.width);
  const at::Tensor matrix = packed<T>(task.cell, weight, form, SMEX_PICK(pack_forward<T>));
  task.weight = matrix.const_data_ptr<T>();
  share(task.steps, task.rows, form, [&](Span steps, Span rows, Span panels) {
    SMEX_PICK(run_forward<T>)(task, steps, rows, panels);
  });
}

template <typename T>
void run_task(LayerBackward<T> task, const at::Tensor& weight) {
  const Panels form = SMEX_PICK(backward_panels<T>)(task.cell, task.width);
  const at::Tensor matrix = packed<T>(task.cell, weight, form, SMEX_PICK(pack_backward<T>));
  task.weight = matrix.const_data_ptr<T>();
  share(task.steps + 1, task.rows, form, [&](Span steps, Span rows, Span panels) {
    SMEX_PICK(run_backward<T>)(task, steps, rows, panels);
  });
}

Three lstm_layer(const at::Tensor& given_x, const at::Tensor& given_h, const at::Tensor& given_c,
                 const at::Tensor& weight) {
  check_lstm_layer(given_x, given_h, given_c, weight);
  if (!has_kernel(given_x, weight)) return lstm_layer_by_steps(given_x, given_h, given_c, weight);
  const at::Tensor x = given_x.contiguous(), h = given_h.contiguous(), c = given_c.contiguous();
  const at::Tensor out = at::empty({x.size(0), x.size(1), weight.size(1)}, x.options());
  const at::Tensor cells = at::empty_like(out), gates = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), kLstmLayer, [&] {
    LayerForward<scalar_t> task{Cell::kLstm, x.size(0), x.size(1), weight.size(1)};
    task.x = x.const_data_ptr<scalar_t>();
    task.h = h.const_data_ptr<scalar_t>();
    task.c = c.const_data_ptr<scalar_t>();
    task.out = out.mutable_data_ptr<scalar_t>();
    task.cells = cells.mutable_data_ptr<scalar_t>();
    task.gates = gates.mutable_data_ptr<scalar_t>();
    run_task(task, weight);
  });
  return {out, cells, gates};
}

Three lstm_layer_backward(const at::Tensor& given_grad, const Optional& given_grad_cells,
                          const at::Tensor& weight, const at::Tensor& given_gates,
                          const at::Tensor& given_cells, const at::Tensor& given_c) {
  if (!has_kernel(given_gates, weight)) {
    return lstm_layer_backward_by_steps(given_grad, given_grad_cells, weight, given_gates,
                                        given_cells, given_c);
  }
  const at::Tensor grad = given_grad.contiguous(), gates = given_gates.contiguous();
  const at::Tensor cells = given_cells.contiguous(), c = given_c.contiguous();
  const at::Tensor grad_cells = given_grad_cells ? given_grad_cells->contiguous() : at::Tensor();
  const at::Tensor dx = at::empty_like(gates), dh = at::empty_like(c), dc = at::zeros_like(c);
  AT_DISPATCH_FLOATING_TYPES(gates.scalar_type(), kLstmLayerBackward, [&] {
    LayerBackward<scalar_t> task{Cell::kLstm, gates.size(0), gates.size(1), weight.size(1)};
    task.grad = grad.const_data_ptr<scalar_t>();
    if (grad_cells.defined()) task.grad_cells = grad_cells.const_data_ptr<scalar_t>();
    task.cells = cells.const_data_ptr<scalar_t>();
    task.c = c.const_data_ptr<scalar_t>();
    task.gates = gates.const_data_ptr<scalar_t>();
    task.grad_x = dx.mutable_data_ptr<scalar_t>();
    task.grad_h = dh.mutable_data_ptr<scalar_t>();
    task.carry = dc.mutable_data_ptr<scalar_t>();
    run_task(task, weight);
  });
  return {dx, dh, dc};
}

Two gru_layer(const at::Tensor& given_x, const at::Tensor& given_h, const at::Tensor& weight,
              const Optional& given_bias) {
  check_gru_layer(given_x, given_h, weight, given_bias);
  if (!has_kernel(given_x, weight)) return gru_layer_by_steps(given_x, given_h, weight, given_bias);
  const at::Tensor x = given_x.contiguous(), h = given_h.contiguous();
  const at::Tensor bias = given_bias ? given_bias->contiguous() : at::Tensor();
  const int64_t width = weight.size(1);
  const at::Tensor out = at::empty({x.size(0), x.size(1), width}, x.options());
  const at::Tensor gates = at::empty({x.size(0), x.size(1), 4 * width}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), kGruLayer, [&] {
    LayerForward<scalar_t> task{Cell::kGru, x.size(0), x.size(1), width};
    task.x = x.const_data_ptr<scalar_t>();
    task.h = h.const_data_ptr<scalar_t>();
    if (bias.defined()) task.bias = bias.const_data_ptr<scalar_t>();
    task.out = out.mutable_data_ptr<scalar_t>();
    task.gates = gates.mutable_data_ptr<scalar_t>();
    run_task(task, weight);
  });
  return {out, gates};
}

Three gru_layer_backward(const at::Tensor& given_grad, const at::Tensor& weight,
                         const at::Tensor& given_gates, const at::Tensor& given_out,
                         const at::Tensor& given_h) {
  if (!has_kernel(given_gates, weight)) {
    return gru_layer_backward_by_steps(given_grad, weight, given_gates, given_out, given_h);
  }
  const at::Tensor grad = given_grad.contiguous(), gates = given_gates.contiguous();
  const at::Tensor out = given_out.contiguous(), h = given_h.contiguous();
  const int64_t width = weight.size(1);
  const at::Tensor dx = at::empty({out.size(0), out.size(1), 3 * width}, out.options());
  const at::Tensor reset = at::empty_like(out), dh = at::empty_like(h), carry = at::zeros_like(h);
  AT_DISPATCH_FLOATING_TYPES(gates.scalar_type(), kGruLayerBackward, [&] {
    LayerBackward<scalar_t> task{Cell::kGru, out.size(0), out.size(1), width};
    task.grad = grad.const_data_ptr<scalar_t>();
    task.out = out.const_data_ptr<scalar_t>();
    task.h = h.const_data_ptr<scalar_t>();
    task.gates = gates.const_data_ptr<scalar_t>();
    task.grad_x = dx.mutable_data_ptr<scalar_t>();
    task.grad_reset = reset.mutable_data_ptr<scalar_t>();
    task.grad_h = dh.mutable_data_ptr<scalar_t>();
    task.carry = carry.mutable_data_ptr<scalar_t>();
    run_task(task, weight);
  });
  return {dx, reset, dh};
}

Cell rnn_cell(bool relu) { return relu ? Cell::kRelu : Cell::kTanh; }

at::Tensor rnn_layer(const at::Tensor& given_x, const at::Tensor& given_h, const at::Tensor& weight,
                     bool relu) {
  check_rnn_layer(given_x, given_h, weight);
  if (!has_kernel(given_x, weight)) return rnn_layer_by_steps(given_x, given_h, weight, relu);
  const at::Tensor x = given_x.contiguous(), h = given_h.contiguous();
  const at::Tensor out = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), kRnnLayer, [&] {
    LayerForward<scalar_t> task{rnn_cell(relu), x.size(0), x.size(1), weight.size(1)};
    task.x = x.const_data_ptr<scalar_t>();
    task.h = h.const_data_ptr<scalar_t>();
    task.out = out.mutable_data_ptr<scalar_t>();
    run_task(task, weight);
  });
  return out;
}

Two rnn_layer_backward(const at::Tensor& given_grad, const at::Tensor& weight,
                       const at::Tensor& given_out, bool relu) {
  if (!has_kernel(given_out, weight))
    return rnn_layer_backward_by_steps(given_grad, weight, given_out, relu);
  const at::Tensor grad = given_grad.contiguous(), out = given_out.contiguous();
  const at::Tensor dx = at::empty_like(out);
  const at::Tensor dh = at::empty({out.size(1), out.size(2)}, out.options());
  AT_DISPATCH_FLOATING_TYPES(out.scalar_type(), kRnnLayerBackward, [&] {
    LayerBackward<scalar_t> task{rnn_cell(relu), out.size(0), out.size(1), weight.size(1)};
    task.grad = grad.const_data_ptr<scalar_t>();
    task.out = out.const_data_ptr<scalar_t>();
    task.grad_x = dx.mutable_data_ptr<scalar_t>();
    task.grad_h = dh.mutable_data_ptr<scalar_t>();
    run_task(task, weight);
  });
  return {dx, dh};
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("recurrent_product", recurrent_product);
  m.impl("recurrent_gradient", recurrent_gradient);
  m.impl("lstm_layer", lstm_layer);
  m.impl("lstm_layer_backward", lstm_layer_backward);
  m.impl("gru_layer", gru_layer);
  m.impl("gru_layer_backward", gru_layer_backward);
  m.impl("rnn_layer", rnn_layer);
  m.impl("rnn_layer_backward", rnn_layer_backward);
}

}  // namespace smex::kernels
