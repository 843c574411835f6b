// smex::gat_attention: graph attention in one pass, its weights computed again for the gradient.
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kernels/attention/attention.h"
#include "kernels/attention/steps.h"
#include "kernels/cpu/large_pages.h"
#include "kernels/message/dispatch.h"
#include "kernels/message/gradients.h"
#include "kernels/message/operands.h"
#include "kernels/message/parallel.h"

namespace smex::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

constexpr const char* kOp = "smex::gat_attention";

void check_attention(at::TensorList in_edges, const at::Tensor& left, const at::Tensor& right,
                     const at::Tensor& value) {
  check_edges(kOp, in_edges);
  TORCH_CHECK_VALUE(value.dim() == 3, kOp, ": expected values [sources, heads, features], found ",
                    value.sym_sizes());
  TORCH_CHECK_VALUE(left.dim() == 2 && left.sym_size(0) == value.sym_size(0) &&
                        left.sym_size(1) == value.sym_size(1),
                    kOp, ": expected left scores [sources, heads] for values ", value.sym_sizes(),
                    ", found ", left.sym_sizes());
  TORCH_CHECK_VALUE(right.dim() == 2 && right.sym_size(0) == in_edges[0].sym_size(0) - 1 &&
                        right.sym_size(1) == value.sym_size(1),
                    kOp, ": expected right scores [", in_edges[0].sym_size(0) - 1, ", ",
                    value.sym_size(1), "], found ", right.sym_sizes());
  for (const at::Tensor& x : {left, right, value}) {
    TORCH_CHECK_TYPE(x.is_floating_point() && x.scalar_type() == value.scalar_type(), kOp,
                     ": expected scores and values of one floating-point type, found ",
                     value.scalar_type(), " and ", x.scalar_type());
    TORCH_CHECK_VALUE(x.device() == in_edges[0].device(), kOp, ": scores or values are on ",
                      x.device(), ", the graph on ", in_edges[0].device());
  }
}

template <typename Task>
void set_sizes(Task& task, const at::Tensor& value) {
  task.heads = value.size(1);
  task.inner = value.size(2);
  task.num_pieces = num_pieces(task.rows.num_rows, task.rows.num_edges, task.heads * task.inner);
}

std::tuple<at::Tensor, at::Tensor> gat_cpu(at::TensorList in_edges, at::TensorList,
                                           const at::Tensor& left, const at::Tensor& right,
                                           const at::Tensor& value, double slope) {
  const EdgeTensors edges(kOp, in_edges);
  check_attention(in_edges, left, right, value);
  const auto type = sum_type(value.scalar_type());
  const at::Tensor wide_left = left.to(type).contiguous();
  const at::Tensor wide_right = right.to(type).contiguous();
  const at::Tensor dense = value.contiguous();
  const int64_t rows = edges.num_rows();
  const at::Tensor out = empty_result({rows, value.size(1), value.size(2)}, value.options());
  const at::Tensor largest = at::empty_like(wide_right), sum = at::empty_like(wide_right);
  if (value.size(1) == 0) return {out, sum};
  dispatch_types(kOp, value.scalar_type(), edges.indptr.scalar_type(), [&](auto feature, auto id) {
    using T = typename decltype(feature)::type;
    using I = typename decltype(id)::type;
    using C = accumulate_t<T>;
    GatForwardTask<T, I> task;
    task.rows = edges.rows<I>();
    set_sizes(task, value);
    task.slope = static_cast<C>(slope);
    task.left = data_of<C>(wide_left);
    task.right = data_of<C>(wide_right);
    task.value = data_of<T>(dense);
    task.out = mutable_data_of<T>(out);
    task.largest = mutable_data_of<C>(largest);
    task.sum = mutable_data_of<C>(sum);
    const at::Tensor shared =
        at::empty({task.num_pieces * 2 * task.heads * (task.inner + 2)}, sum.options());
    task.shared = mutable_data_of<C>(shared);
    const auto pieces = SMEX_PICK(gat_forward_pieces<T, I>);
    for_pieces(task.num_pieces, [&](int64_t begin, int64_t end) { pieces(task, begin, end); });
    if (task.num_pieces > 1) SMEX_PICK(attention_finish<T, I>)(task);
  });
  return {out, sum.log_().add_(largest)};
}

Three gat_backward_cpu(at::TensorList in_edges, at::TensorList out_edges, const at::Tensor& left,
                       const at::Tensor& right, const at::Tensor& value, const at::Tensor& out,
                       const at::Tensor& log_sum, const at::Tensor& grad, double slope) {
  const EdgeTensors edges(kOp, out_edges);
  check_attention(in_edges, left, right, value);
  const auto type = sum_type(value.scalar_type());
  const at::Tensor wide_left = left.to(type).contiguous();
  const at::Tensor wide_right = right.to(type).contiguous(), sums = log_sum.contiguous();
  const at::Tensor dense = value.contiguous();
  const at::Tensor dense_out = out.contiguous(), dense_grad = grad.contiguous();
  const at::Tensor grad_value = empty_result(dense.sizes(), dense.options());
  const at::Tensor grad_left = at::empty_like(wide_left);
  const int64_t heads = value.size(1), inner = value.size(2), destinations = right.size(0);
  // Each thread adds to a copy of its own, if there is a piece for it; all of them are no larger
  // than the values.
  const int64_t pieces_of_all = num_pieces(edges.num_rows(), edges.num_edges(), heads * inner);
  const int64_t copies =
      std::max<int64_t>(1, std::min({int64_t{at::get_num_threads()}, inner, pieces_of_all}));
  const at::Tensor state = at::empty({destinations, 3, heads}, wide_left.options());
  const at::Tensor grad_right = at::zeros({copies, destinations, heads}, wide_left.options());
  if (heads == 0) return {left.clone(), right.clone(), value.clone()};
  dispatch_types(kOp, value.scalar_type(), edges.indptr.scalar_type(), [&](auto feature, auto id) {
    using T = typename decltype(feature)::type;
    using I = typename decltype(id)::type;
    using C = accumulate_t<T>;
    GatBackwardTask<T, I> task;
    task.rows = edges.rows<I>();
    task.num_destinations = destinations;
    set_sizes(task, value);
    task.slope = static_cast<C>(slope);
    task.left = data_of<C>(wide_left);
    task.right = data_of<C>(wide_right);
    task.log_sum = data_of<C>(sums);
    task.state = mutable_data_of<C>(state);
    task.value = data_of<T>(dense);
    task.out = data_of<T>(dense_out);
    task.grad = data_of<T>(dense_grad);
    task.grad_left = mutable_data_of<C>(grad_left);
    task.grad_right = mutable_data_of<C>(grad_right);
    task.grad_value = mutable_data_of<T>(grad_value);
    const at::Tensor shared =
        at::empty({task.num_pieces * 2 * heads * (inner + 1)}, wide_left.options());
    task.shared = mutable_data_of<C>(shared);
    const auto states = SMEX_PICK(gat_backward_states<T, I>);
    constexpr int64_t kGrain = 1024;
    at::parallel_for(0, destinations, kGrain,
                     [&](int64_t begin, int64_t end) { states(task, begin, end); });
    const auto pieces = SMEX_PICK(gat_backward_pieces<T, I>);
    // Which pieces share a copy is fixed, so that sums come out the same each time.
    at::parallel_for(0, copies, 1, [&](int64_t first, int64_t last) {
      for (int64_t copy = first; copy < last; ++copy)
        pieces(task, task.num_pieces * copy / copies, task.num_pieces * (copy + 1) / copies, copy);
    });
    if (task.num_pieces > 1) SMEX_PICK(gat_backward_finish<T, I>)(task);
  });
  const at::Tensor total = copies == 1 ? grad_right[0] : grad_right.sum(0);
  return {grad_left.to(left.scalar_type()), total.to(left.scalar_type()), grad_value};
}

std::tuple<at::Tensor, at::Tensor> gat_meta(at::TensorList in_edges, at::TensorList,
                                            const at::Tensor& left, const at::Tensor& right,
                                            const at::Tensor& value, double) {
  check_attention(in_edges, left, right, value);
  const auto rows = in_edges[0].sym_size(0) - 1;
  return {at::empty_symint({rows, value.sym_size(1), value.sym_size(2)}, value.options()),
          at::empty_symint({rows, value.sym_size(1)},
                           value.options().dtype(sum_type(value.scalar_type())))};
}

Three gat_backward_meta(at::TensorList, at::TensorList, const at::Tensor& left,
                        const at::Tensor& right, const at::Tensor& value, const at::Tensor&,
                        const at::Tensor&, const at::Tensor&, double) {
  constexpr auto kContiguous = at::MemoryFormat::Contiguous;
  return {at::empty_like(left, kContiguous), at::empty_like(right, kContiguous),
          at::empty_like(value, kContiguous)};
}

const auto& forward_op() {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow(kOp, "").typed<decltype(gat_cpu)>();
  return op;
}

const auto& backward_op() {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("smex::gat_attention_backward", "")
                             .typed<decltype(gat_backward_cpu)>();
  return op;
}

/// The same by operators that store a weight for every edge, for second derivatives.
at::Tensor stepwise(at::TensorList in_edges, at::TensorList out_edges, const at::Tensor& left,
                    const at::Tensor& right, const at::Tensor& value, double slope) {
  const std::string leaky = to_string(
      call(MessageOp::kLeakyRelu,
           call(MessageOp::kAdd, operand(Target::kSource, 0), operand(Target::kDestination, 1)),
           constant(slope)));
  return attention_by_steps(in_edges, out_edges, leaky, {left, right}, value);
}

std::tuple<at::Tensor, at::Tensor> gat_cuda(at::TensorList in_edges, at::TensorList out_edges,
                                            const at::Tensor& left, const at::Tensor& right,
                                            const at::Tensor& value, double slope) {
  check_attention(in_edges, left, right, value);
  return {stepwise(in_edges, out_edges, left, right, value, slope),
          at::empty({right.size(0), right.size(1)},
                    value.options().dtype(sum_type(value.scalar_type())))};
}

class GatFunction : public torch::autograd::Function<GatFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& left,
                               const at::Tensor& right, const at::Tensor& value,
                               at::TensorList in_edges, at::TensorList out_edges, double slope) {
    at::AutoDispatchBelowADInplaceOrView guard;
    TORCH_CHECK_VALUE(!out_edges.empty(), kOp, ": the gradient needs out_edges, found none");
    const auto [out, log_sum] = forward_op().call(in_edges, out_edges, left, right, value, slope);
    variable_list kept = {left, right, value, out, log_sum};
    kept.insert(kept.end(), in_edges.begin(), in_edges.end());
    kept.insert(kept.end(), out_edges.begin(), out_edges.end());
    ctx->save_for_backward(kept);
    ctx->saved_data["in_edges"] = static_cast<int64_t>(in_edges.size());
    ctx->saved_data["slope"] = slope;
    ctx->set_materialize_grads(false);
    return {out, log_sum};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list kept = ctx->get_saved_variables();
    const auto in_edges = kept.begin() + 5;
    const auto out_edges = in_edges + ctx->saved_data["in_edges"].toInt();
    const variable_list in(in_edges, out_edges), out(out_edges, kept.end());
    const double slope = ctx->saved_data["slope"].toDouble();
    variable_list result(3 + in.size() + out.size() + 1);
    if (!grads[0].defined()) return result;
    if (at::GradMode::is_enabled()) {
      // Scores may be made of the values, whose gradient comes by the caller's graph and not by
      // this.
      variable_list inputs;
      for (int i = 0; i < 3; ++i) inputs.push_back(kept[i].view_as(kept[i]));
      const at::Tensor again = stepwise(in, out, inputs[0], inputs[1], inputs[2], slope);
      const variable_list wanted =
          torch::autograd::grad({again}, inputs, {grads[0]}, /*retain_graph=*/true,
                                /*create_graph=*/true, /*allow_unused=*/true);
      std::copy(wanted.begin(), wanted.end(), result.begin());
      return result;
    }
    std::tie(result[0], result[1], result[2]) =
        backward_op().call(in, out, kept[0], kept[1], kept[2], kept[3], kept[4], grads[0], slope);
    return result;
  }
};

std::tuple<at::Tensor, at::Tensor> gat_autograd(at::TensorList in_edges, at::TensorList out_edges,
                                                const at::Tensor& left, const at::Tensor& right,
                                                const at::Tensor& value, double slope) {
  refuse_tangents(kOp, {left, right, value});
  if (value.is_cuda()) return gat_cuda(in_edges, out_edges, left, right, value, slope);
  const bool wanted = left.requires_grad() || right.requires_grad() || value.requires_grad();
  if (at::GradMode::is_enabled() && wanted) {
    const variable_list result = GatFunction::apply(left, right, value, in_edges, out_edges, slope);
    return {result[0], result[1].detach()};
  }
  at::AutoDispatchBelowADInplaceOrView guard;
  return forward_op().call(in_edges, out_edges, left, right, value, slope);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "gat_attention(Tensor[] in_edges, Tensor[] out_edges, Tensor left, Tensor right, "
      "Tensor value, float slope) -> (Tensor, Tensor)");
  m.def(
      "gat_attention_backward(Tensor[] in_edges, Tensor[] out_edges, Tensor left, Tensor right, "
      "Tensor value, Tensor out, Tensor log_sum, Tensor grad, float slope) -> "
      "(Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("gat_attention", gat_cpu);
  m.impl("gat_attention_backward", gat_backward_cpu);
}

TORCH_LIBRARY_IMPL(smex, CUDA, m) { m.impl("gat_attention", gat_cuda); }

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("gat_attention", gat_meta);
  m.impl("gat_attention_backward", gat_backward_meta);
}

TORCH_LIBRARY_IMPL(smex, Autograd, m) { m.impl("gat_attention", gat_autograd); }

}  // namespace smex::kernels
