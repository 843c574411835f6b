#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kernels/edge_softmax/operator.h"
#include "kernels/message/gradients.h"

namespace smex::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

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
    const at::Tensor out = call_edge_softmax(edges, score);
    variable_list kept = {out};
    kept.insert(kept.end(), edges.begin(), edges.end());
    ctx->save_for_backward(kept);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list kept = ctx->get_saved_variables();
    const variable_list edges(kept.begin() + 1, kept.end());
    variable_list result(kept.size());
    result[0] = call_edge_softmax_backward(edges, kept[0], grads[0]);
    return result;
  }
};

at::Tensor edge_softmax_autograd(at::TensorList edges, const at::Tensor& score) {
  refuse_tangents(kEdgeSoftmax, {score});
  if (at::GradMode::is_enabled() && score.requires_grad())
    return EdgeSoftmaxFunction::apply(score, edges);
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_edge_softmax(edges, score);
}

at::Tensor edge_softmax_backward_autograd(at::TensorList edges, const at::Tensor& out,
                                          const at::Tensor& grad) {
  if (at::GradMode::is_enabled() && (out.requires_grad() || grad.requires_grad()))
    return differentiable_backward(edges, out, grad);
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_edge_softmax_backward(edges, out, grad);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, Autograd, m) {
  m.impl("edge_softmax", edge_softmax_autograd);
  m.impl("edge_softmax_backward", edge_softmax_backward_autograd);
}

}  // namespace smex::kernels
