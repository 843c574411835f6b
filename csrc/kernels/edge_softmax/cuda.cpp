#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <algorithm>

#include "kernels/edge_softmax/cuda/edge_softmax.h"
#include "kernels/edge_softmax/operator.h"
#include "kernels/message/cuda/plan.h"

namespace smex::kernels {
namespace {

/// Threads that work on a row at the same time: elements, times as many edges as a row has.
int64_t threads_per_row(int64_t rows, int64_t edges, int64_t elements) {
  constexpr int64_t kWarp = 32;
  return std::max(elements, std::min(kWarp, elements * (edges / rows + 1)));
}

template <typename T, typename I>
void run_on_cuda(EdgeSoftmaxTask<T, I>& task, const at::TensorOptions& options) {
  task.num_pieces =
      num_cuda_pieces(task.rows.num_rows, task.rows.num_edges,
                      threads_per_row(task.rows.num_rows, task.rows.num_edges, task.elements));
  const int64_t numbers = task.num_pieces > 1 ? task.num_pieces * 4 * task.elements : 0;
  const at::Tensor shared = shared_statistics(task, numbers, options);
  edge_softmax_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

at::Tensor softmax_or_gradient_on_cuda(at::TensorList edge_tensors, const at::Tensor& score,
                                       const at::Tensor& grad) {
  const c10::cuda::CUDAGuard guard(score.device());
  const EdgeTensors edges(edge_tensors);
  const at::Tensor dense = score.contiguous();
  const at::Tensor dense_grad = grad.defined() ? grad.contiguous() : grad;
  const at::Tensor out = at::empty_like(dense);
  if (out.numel() == 0 || edges.num_rows() == 0) return out;
  with_softmax_task(edges, dense, dense_grad, out,
                    [&](auto& task) { run_on_cuda(task, out.options()); });
  return out;
}

at::Tensor edge_softmax_on_cuda(at::TensorList edges, const at::Tensor& score) {
  check_scores(edges, {score});
  return softmax_or_gradient_on_cuda(edges, score, at::Tensor());
}

at::Tensor edge_softmax_backward_on_cuda(at::TensorList edges, const at::Tensor& out,
                                         const at::Tensor& grad) {
  check_scores(edges, {out, grad});
  return softmax_or_gradient_on_cuda(edges, out, grad);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CUDA, m) {
  m.impl("edge_softmax", edge_softmax_on_cuda);
  m.impl("edge_softmax_backward", edge_softmax_backward_on_cuda);
}

}  // namespace smex::kernels
