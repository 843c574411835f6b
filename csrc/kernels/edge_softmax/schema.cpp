// smex::edge_softmax and its gradient.
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "kernels/edge_softmax/operator.h"
#include "kernels/operator_of.h"

namespace smex::kernels {

void check_scores(at::TensorList edges, std::initializer_list<at::Tensor> tensors) {
  constexpr const char* kOp = kEdgeSoftmax;
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

at::Tensor edge_softmax_meta(at::TensorList edges, const at::Tensor& score) {
  check_scores(edges, {score});
  return at::empty_like(score, at::MemoryFormat::Contiguous);
}

at::Tensor edge_softmax_backward_meta(at::TensorList edges, const at::Tensor& out,
                                      const at::Tensor& grad) {
  check_scores(edges, {out, grad});
  return at::empty_like(out, at::MemoryFormat::Contiguous);
}

}  // namespace

at::Tensor call_edge_softmax(at::TensorList edges, const at::Tensor& score) {
  static const auto op = operator_of<decltype(edge_softmax_meta)>(kEdgeSoftmax);
  return op.call(edges, score);
}

at::Tensor call_edge_softmax_backward(at::TensorList edges, const at::Tensor& out,
                                      const at::Tensor& grad) {
  static const auto op =
      operator_of<decltype(edge_softmax_backward_meta)>("smex::edge_softmax_backward");
  return op.call(edges, out, grad);
}

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def("edge_softmax(Tensor[] edges, Tensor score) -> Tensor");
  m.def("edge_softmax_backward(Tensor[] edges, Tensor out, Tensor grad) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("edge_softmax", edge_softmax_meta);
  m.impl("edge_softmax_backward", edge_softmax_backward_meta);
}

}  // namespace smex::kernels
