// smex::edge_softmax and its gradient on CUDA.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <algorithm>

#include "kernels/edge_softmax/checks.h"
#include "kernels/edge_softmax/cuda/edge_softmax.h"
#include "kernels/message/cuda/plan.h"
#include "kernels/message/dispatch.h"
#include "kernels/message/operands.h"

namespace smex::kernels {
namespace {

constexpr const char* kOp = "smex::edge_softmax";

/// Threads that work on a row at the same time: elements, times as many edges as a row has.
int64_t threads_per_row(int64_t rows, int64_t edges, int64_t elements) {
  constexpr int64_t kWarp = 32;
  return std::max(elements, std::min(kWarp, elements * (edges / rows + 1)));
}

/// The softmax of `score`, or with `grad` the gradient at the result `score`.
at::Tensor run_on_cuda(at::TensorList edge_tensors, const at::Tensor& score,
                       const at::Tensor& grad) {
  const c10::cuda::CUDAGuard guard(score.device());
  const EdgeTensors edges(kOp, edge_tensors);
  const at::Tensor dense = score.contiguous();
  const at::Tensor dense_grad = grad.defined() ? grad.contiguous() : grad;
  const at::Tensor out = at::empty_like(dense);
  if (out.numel() == 0 || edges.num_rows() == 0) return out;
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
    task.num_pieces =
        num_cuda_pieces(task.rows.num_rows, task.rows.num_edges,
                        threads_per_row(task.rows.num_rows, task.rows.num_edges, task.elements));
    const int64_t numbers = task.num_pieces > 1 ? task.num_pieces * 4 * task.elements : 0;
    const at::Tensor shared =
        at::empty({numbers}, out.options().dtype(c10::CppTypeToScalarType<C>::value));
    task.shared = shared.mutable_data_ptr<C>();
    edge_softmax_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return out;
}

at::Tensor edge_softmax_on_cuda(at::TensorList edges, const at::Tensor& score) {
  check_scores(edges, {score});
  return run_on_cuda(edges, score, at::Tensor());
}

at::Tensor edge_softmax_backward_on_cuda(at::TensorList edges, const at::Tensor& out,
                                         const at::Tensor& grad) {
  check_scores(edges, {out, grad});
  return run_on_cuda(edges, out, grad);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CUDA, m) {
  m.impl("edge_softmax", edge_softmax_on_cuda);
  m.impl("edge_softmax_backward", edge_softmax_backward_on_cuda);
}

}  // namespace smex::kernels
