// smex::edge_softmax and its gradient.
#include "kernels/edge_softmax/edge_softmax.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kernels/cpu/large_pages.h"
#include "kernels/edge_softmax/checks.h"
#include "kernels/message/dispatch.h"
#include "kernels/message/gradients.h"
#include "kernels/message/operands.h"
#include "kernels/message/parallel.h"

namespace smex::kernels {

constexpr const char* kOp = "smex::edge_softmax";

void check_scores(at::TensorList edges, std::initializer_list<at::Tensor> tensors) {
  check_edges(kOp, edges);
  const at::Tensor& first = *tensors.begin();
  for (const at::Tensor& x : tensors) {
    TORCH_CHECK_TYPE(x.is_floating_point(), kOp, ": expected floating point scores, found ",
                     x.scalar_type());
    TORCH_CHECK_VALUE(x.dim() >= 1 && x.sym_size(0) == edges[1].sym_size(0), kOp,
                      ": expected scores of ", edges[1].sym_size(0), " edges, found shape ",
                      x.sym_sizes());
    TORCH_CHECK_VALUE(x.device() == edges[0].device(), kOp, ": scores are on ", x.device(),
                      ", the graph on ", edges[0].device());
    TORCH_CHECK_VALUE(x.sym_sizes() == first.sym_sizes(), kOp, ": expected a gradient of shape ",
                      first.sym_sizes(), ", found ", x.sym_sizes());
    TORCH_CHECK_TYPE(x.scalar_type() == first.scalar_type(), kOp, ": expected a gradient of type ",
                     first.scalar_type(), ", found ", x.scalar_type());
  }
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The softmax of `score`, or with `grad` the gradient at the result `score`.
at::Tensor run_on_cpu(at::TensorList edge_tensors, const at::Tensor& score,
                      const at::Tensor& grad) {
  const EdgeTensors edges(kOp, edge_tensors);
  const at::Tensor dense = score.contiguous();
  const at::Tensor dense_grad = grad.defined() ? grad.contiguous() : grad;
  const at::Tensor out = empty_result(dense.sizes(), dense.options());
  if (out.numel() == 0) return out;
  dispatch_types(kOp, score.scalar_type(), edges.indptr.scalar_type(), [&](auto feature, auto id) {
    using T = typename decltype(feature)::type;
    using I = typename decltype(id)::type;
    using C = accumulate_t<T>;
    EdgeSoftmaxTask<T, I> task;
    task.rows = edges.rows<I>();
    task.elements = out.numel() / out.size(0);
    task.score = data_of<T>(dense);
    task.grad = grad.defined() ? data_of<T>(dense_grad) : nullptr;
    task.out = mutable_data_of<T>(out);
    task.num_pieces = num_pieces(task.rows.num_rows, task.rows.num_edges, task.elements);
    const at::Tensor shared = at::empty({task.num_pieces * 4 * task.elements},
                                        out.options().dtype(c10::CppTypeToScalarType<C>::value));
    task.shared = shared.mutable_data_ptr<C>();
    const auto pieces = SMEX_PICK(edge_softmax_pieces<T, I>);
    for_pieces(task.num_pieces, [&](int64_t begin, int64_t end) { pieces(task, begin, end); });
    if (task.num_pieces == 1) return;
    SMEX_PICK(edge_softmax_finish<T, I>)(task);
    const auto rest = SMEX_PICK(edge_softmax_shared<T, I>);
    for_pieces(task.num_pieces, [&](int64_t begin, int64_t end) { rest(task, begin, end); });
  });
  return out;
}

at::Tensor edge_softmax_cpu(at::TensorList edges, const at::Tensor& score) {
  check_scores(edges, {score});
  return run_on_cpu(edges, score, at::Tensor());
}

at::Tensor edge_softmax_backward_cpu(at::TensorList edges, const at::Tensor& out,
                                     const at::Tensor& grad) {
  check_scores(edges, {out, grad});
  return run_on_cpu(edges, out, grad);
}

at::Tensor edge_softmax_meta(at::TensorList edges, const at::Tensor& score) {
  check_scores(edges, {score});
  return at::empty_like(score, at::MemoryFormat::Contiguous);
}

at::Tensor edge_softmax_backward_meta(at::TensorList edges, const at::Tensor& out,
                                      const at::Tensor& grad) {
  check_scores(edges, {out, grad});
  return at::empty_like(out, at::MemoryFormat::Contiguous);
}

const auto& softmax_op() {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow(kOp, "")
                             .typed<at::Tensor(at::TensorList, const at::Tensor&)>();
  return op;
}

const auto& backward_op() {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("smex::edge_softmax_backward", "")
          .typed<at::Tensor(at::TensorList, const at::Tensor&, const at::Tensor&)>();
  return op;
}

// y * (grad - sum over the row of y * grad), by operators that have gradients themselves.
at::Tensor differentiable_backward(at::TensorList edges, const at::Tensor& y,
                                   const at::Tensor& grad) {
  const at::Tensor sums = call_spmm(edges, {}, "e0 * e1", "sum", {y, grad});
  return call_sddmm(edges, {}, "e0 * (e1 - v2)", {y, grad, sums}, std::nullopt);
}

class EdgeSoftmaxFunction : public torch::autograd::Function<EdgeSoftmaxFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& score, at::TensorList edges) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const at::Tensor out = softmax_op().call(edges, score);
    variable_list kept = {out};
    kept.insert(kept.end(), edges.begin(), edges.end());
    ctx->save_for_backward(kept);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list kept = ctx->get_saved_variables();
    const variable_list edges(kept.begin() + 1, kept.end());
    variable_list result(kept.size());
    result[0] = backward_op().call(edges, kept[0], grads[0]);
    return result;
  }
};

at::Tensor edge_softmax_autograd(at::TensorList edges, const at::Tensor& score) {
  refuse_tangents(kOp, {score});
  if (at::GradMode::is_enabled() && score.requires_grad())
    return EdgeSoftmaxFunction::apply(score, edges);
  at::AutoDispatchBelowADInplaceOrView guard;
  return softmax_op().call(edges, score);
}

at::Tensor edge_softmax_backward_autograd(at::TensorList edges, const at::Tensor& out,
                                          const at::Tensor& grad) {
  if (at::GradMode::is_enabled() && (out.requires_grad() || grad.requires_grad()))
    return differentiable_backward(edges, out, grad);
  at::AutoDispatchBelowADInplaceOrView guard;
  return backward_op().call(edges, out, grad);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def("edge_softmax(Tensor[] edges, Tensor score) -> Tensor");
  m.def("edge_softmax_backward(Tensor[] edges, Tensor out, Tensor grad) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("edge_softmax", edge_softmax_cpu);
  m.impl("edge_softmax_backward", edge_softmax_backward_cpu);
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("edge_softmax", edge_softmax_meta);
  m.impl("edge_softmax_backward", edge_softmax_backward_meta);
}

TORCH_LIBRARY_IMPL(smex, Autograd, m) {
  m.impl("edge_softmax", edge_softmax_autograd);
  m.impl("edge_softmax_backward", edge_softmax_backward_autograd);
}

}  // namespace smex::kernels
