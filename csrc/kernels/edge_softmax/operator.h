// What the files that register these operators share.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>

#include "kernels/edge_softmax/edge_softmax.h"
#include "kernels/message/dispatch.h"
#include "kernels/message/operands.h"

namespace smex::kernels {

constexpr const char* kEdgeSoftmax = "smex::edge_softmax";

/// Checks the edges, and types, shapes and devices of scores, and of their gradient where there is
/// one.
void check_scores(at::TensorList edges, std::initializer_list<at::Tensor> tensors);

/// smex::edge_softmax through torch's dispatcher.
at::Tensor call_edge_softmax(at::TensorList edges, const at::Tensor& score);

/// smex::edge_softmax_backward through torch's dispatcher.
at::Tensor call_edge_softmax_backward(at::TensorList edges, const at::Tensor& out,
                                      const at::Tensor& grad);

/// Calls `run(task)` with the task of the softmax of `score`, or with `grad` of the gradient at the
/// result `score`; both are dense. Its pieces and the memory of shared rows are for `run` to
/// choose.
template <typename Run>
void with_softmax_task(const EdgeTensors& edges, const at::Tensor& score, const at::Tensor& grad,
                       const at::Tensor& out, const Run& run) {
  dispatch_types(kEdgeSoftmax, score.scalar_type(), edges.indptr.scalar_type(),
                 [&](auto feature, auto id) {
                   using T = typename decltype(feature)::type;
                   using I = typename decltype(id)::type;
                   EdgeSoftmaxTask<T, I> task;
                   task.rows = edges.rows<I>();
                   task.elements = out.numel() / out.size(0);
                   task.score = data_of<T>(score);
                   task.grad = grad.defined() ? data_of<T>(grad) : nullptr;
                   task.out = mutable_data_of<T>(out);
                   run(task);
                 });
}

/// Memory for `numbers` of EdgeSoftmaxTask::shared, which points to it.
template <typename T, typename I>
at::Tensor shared_statistics(EdgeSoftmaxTask<T, I>& task, int64_t numbers,
                             const at::TensorOptions& options) {
  using C = accumulate_t<T>;
  at::Tensor shared = at::empty({numbers}, options.dtype(c10::CppTypeToScalarType<C>::value));
  task.shared = shared.mutable_data_ptr<C>();
  return shared;
}

}  // namespace smex::kernels
