#include <torch/library.h>

#include "edges/cursor.h"
#include "edges/parallel.h"
#include "kernels/cpu/large_pages.h"
#include "kernels/edge_softmax/operator.h"

namespace smex::kernels {
namespace {

template <typename T, typename I>
void run_on_cpu(EdgeSoftmaxTask<T, I>& task, const at::TensorOptions& options) {
  task.num_pieces = num_pieces(task.rows.num_rows, task.rows.num_edges, task.elements);
  const at::Tensor shared = shared_statistics(task, task.num_pieces * 4 * task.elements, options);
  const Workers workers = torch_workers();
  const auto pieces = SMEX_PICK(edge_softmax_pieces<T, I>);
  workers.for_pieces(task.num_pieces,
                     [&](int64_t begin, int64_t end) { pieces(task, begin, end); });
  if (task.num_pieces == 1) return;
  SMEX_PICK(edge_softmax_finish<T, I>)(task);
  const auto rest = SMEX_PICK(edge_softmax_shared<T, I>);
  workers.for_pieces(task.num_pieces, [&](int64_t begin, int64_t end) { rest(task, begin, end); });
}

at::Tensor softmax_or_gradient(at::TensorList edges, const at::Tensor& score,
                               const at::Tensor& grad) {
  const at::Tensor dense = score.contiguous();
  const at::Tensor dense_grad = grad.defined() ? grad.contiguous() : grad;
  const at::Tensor out = empty_result(dense.sizes(), dense.options());
  if (out.numel() == 0) return out;
  with_softmax_task(EdgeTensors(edges), dense, dense_grad, out,
                    [&](auto& task) { run_on_cpu(task, out.options()); });
  return out;
}

at::Tensor edge_softmax_on_cpu(at::TensorList edges, const at::Tensor& score) {
  check_scores(edges, {score});
  return softmax_or_gradient(edges, score, at::Tensor());
}

at::Tensor edge_softmax_backward_on_cpu(at::TensorList edges, const at::Tensor& out,
                                        const at::Tensor& grad) {
  check_scores(edges, {out, grad});
  return softmax_or_gradient(edges, out, grad);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("edge_softmax", edge_softmax_on_cpu);
  m.impl("edge_softmax_backward", edge_softmax_backward_on_cpu);
}

}  // namespace smex::kernels
