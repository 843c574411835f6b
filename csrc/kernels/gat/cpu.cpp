#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "edges/cursor.h"
#include "edges/parallel.h"
#include "kernels/cpu/large_pages.h"
#include "kernels/gat/gat.h"
#include "kernels/gat/operator.h"
#include "kernels/message/dispatch.h"
#include "kernels/message/operands.h"

namespace smex::kernels {
namespace {

template <typename Task>
void set_sizes(Task& task, const at::Tensor& value) {
  task.heads = value.size(1);
  task.inner = value.size(2);
  task.num_pieces = num_pieces(task.rows.num_rows, task.rows.num_edges, task.heads * task.inner);
}

Two gat_on_cpu(at::TensorList in_edges, at::TensorList, const at::Tensor& left,
               const at::Tensor& right, const at::Tensor& value, double slope) {
  check_gat(in_edges, left, right, value);
  const EdgeTensors edges(in_edges);
  const auto type = sum_type(value.scalar_type());
  const at::Tensor wide_left = left.to(type).contiguous();
  const at::Tensor wide_right = right.to(type).contiguous();
  const at::Tensor dense = value.contiguous();
  const int64_t rows = edges.num_rows();
  const at::Tensor out = empty_result({rows, value.size(1), value.size(2)}, value.options());
  const at::Tensor largest = at::empty_like(wide_right), sum = at::empty_like(wide_right);
  if (value.size(1) == 0) return {out, sum};
  dispatch_types(kGat, value.scalar_type(), edges.indptr.scalar_type(), [&](auto feature, auto id) {
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
    torch_workers().for_pieces(task.num_pieces,
                               [&](int64_t begin, int64_t end) { pieces(task, begin, end); });
    if (task.num_pieces > 1) SMEX_PICK(attention_finish<T, I>)(task);
  });
  return {out, sum.log_().add_(largest)};
}

Three gat_backward_on_cpu(at::TensorList in_edges, at::TensorList out_edges, const at::Tensor& left,
                          const at::Tensor& right, const at::Tensor& value, const at::Tensor& out,
                          const at::Tensor& log_sum, const at::Tensor& grad, double slope) {
  check_gat(in_edges, left, right, value);
  check_edges(kGat, out_edges);
  const EdgeTensors edges(out_edges);
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
  dispatch_types(kGat, value.scalar_type(), edges.indptr.scalar_type(), [&](auto feature, auto id) {
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

// ---- gradients where a graph is divided ----

// The gradients of rows' scores, and of their values where `grad_value` is defined. `state` are the
// columns' numbers, `row_state` the rows', undefined where the columns have them all.
void gat_rows_gradient(const char* name, at::TensorList edge_tensors, const at::Tensor& scores,
                       const at::Tensor& value, const at::Tensor& grad, const at::Tensor& state,
                       const at::Tensor& row_state, double slope, const at::Tensor& grad_scores,
                       const at::Tensor& grad_value) {
  const EdgeTensors edges(edge_tensors);
  const int64_t heads = value.size(1), inner = value.size(2);
  if (heads == 0) return;
  const at::Tensor dense = value.contiguous(), dense_grad = grad.contiguous();
  dispatch_types(name, value.scalar_type(), edges.indptr.scalar_type(), [&](auto feature, auto id) {
    using T = typename decltype(feature)::type;
    using I = typename decltype(id)::type;
    using C = accumulate_t<T>;
    GatBackwardTask<T, I> task;
    task.rows = edges.rows<I>();
    set_sizes(task, value);
    task.slope = static_cast<C>(slope);
    task.left = data_of<C>(scores);
    task.state = mutable_data_of<C>(state);
    if (row_state.defined()) task.row_state = data_of<C>(row_state);
    task.value = data_of<T>(dense);
    task.grad = data_of<T>(dense_grad);
    task.grad_left = mutable_data_of<C>(grad_scores);
    if (grad_value.defined()) task.grad_value = mutable_data_of<T>(grad_value);
    const at::Tensor shared =
        at::empty({task.num_pieces * 2 * heads * (inner + 1)}, scores.options());
    task.shared = mutable_data_of<C>(shared);
    const auto pieces = SMEX_PICK(gat_backward_pieces<T, I>);
    torch_workers().for_pieces(
        task.num_pieces, [&](int64_t begin, int64_t end) { pieces(task, begin, end, /*copy=*/0); });
    if (task.num_pieces > 1) SMEX_PICK(gat_backward_finish<T, I>)(task);
  });
}

Two gat_by_source_on_cpu(at::TensorList out_edges, const at::Tensor& left, const at::Tensor& right,
                         const at::Tensor& value, const at::Tensor& log_sum,
                         const at::Tensor& change, const at::Tensor& grad, double slope) {
  check_gat_part(kGatBySource, out_edges, left, right, value, log_sum, change, grad);
  const auto type = sum_type(value.scalar_type());
  const at::Tensor scores = left.to(type).contiguous();
  const at::Tensor state = at::stack({right.to(type), log_sum.to(type), change.to(type)}, 1);
  const at::Tensor grad_left = at::empty_like(scores);
  const at::Tensor grad_value = empty_result(value.sizes(), value.options());
  gat_rows_gradient(kGatBySource, out_edges, scores, value, grad, state, {}, slope, grad_left,
                    grad_value);
  return {grad_left.to(left.scalar_type()), grad_value};
}

at::Tensor gat_by_destination_on_cpu(at::TensorList in_edges, const at::Tensor& left,
                                     const at::Tensor& right, const at::Tensor& value,
                                     const at::Tensor& log_sum, const at::Tensor& change,
                                     const at::Tensor& grad, double slope) {
  check_gat_part(kGatByDestination, in_edges, left, right, value, log_sum, change, grad);
  const auto type = sum_type(value.scalar_type());
  const at::Tensor scores = right.to(type).contiguous(), state = left.to(type).contiguous();
  const at::Tensor row_state = at::stack({log_sum.to(type), change.to(type)}, 1);
  const at::Tensor grad_right = at::empty_like(scores);
  gat_rows_gradient(kGatByDestination, in_edges, scores, grad, value, state, row_state, slope,
                    grad_right, {});
  return grad_right.to(right.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("gat_gradient_by_source", gat_by_source_on_cpu);
  m.impl("gat_gradient_by_destination", gat_by_destination_on_cpu);
  m.impl("gat_attention", gat_on_cpu);
  m.impl("gat_attention_backward", gat_backward_on_cpu);
}

}  // namespace smex::kernels
