#pragma once

#include <ATen/core/Tensor.h>

#include "edges/tensors.h"
#include "kernels/message/dispatch.h"
#include "kernels/numbers.h"
#include "kernels/spmm/operator.h"

namespace smex::kernels {

/// Calls `run(task)` with the task that fills `out` and, where it is defined, `winner`; its pieces
/// are for `run` to choose.
template <typename Run>
void with_spmm_task(const EdgeTensors& edges, const MessageProgram& program, Reduce reduce,
                    double empty, at::TensorList operands, const at::Tensor& out,
                    const at::Tensor& winner, const Run& run) {
  dispatch_types(kSpmm, out.scalar_type(), edges.indptr.scalar_type(), [&](auto feature, auto id) {
    using T = typename decltype(feature)::type;
    using I = typename decltype(id)::type;
    const DenseOperands<T> dense(operands);
    SpmmTask<T, I> task;
    task.rows = edges.rows<I>();
    task.program = &program;
    task.operands = dense.rows();
    task.reduce = reduce;
    narrow(static_cast<accumulate_t<T>>(empty), task.empty);
    task.out = mutable_data_of<T>(out);
    if (winner.defined()) task.winner = mutable_data_of<I>(winner);
    run(task);
  });
}

}  // namespace smex::kernels
