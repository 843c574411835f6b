// Memory for the rows that pieces share.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "kernels/spmm/spmm.h"

namespace smex::kernels {

/// What `SpmmTask::shared` and `shared_winner` point to, for as long as this lives.
class Partials {
 public:
  /// For a task of which the program, the pieces and the winner are known.
  template <typename T, typename I>
  Partials(SpmmTask<T, I>& task, const at::TensorOptions& options) {
    using C = accumulate_t<T>;
    const int64_t n = task.program->out_elements;
    const int64_t size = task.num_pieces > 1 ? task.num_pieces * 2 * n : 0;
    values_ = at::empty({size}, options.dtype(c10::CppTypeToScalarType<C>::value));
    task.shared = values_.mutable_data_ptr<C>();
    if (!task.winner) return;
    winners_ = at::empty({size}, options.dtype(c10::CppTypeToScalarType<I>::value));
    task.shared_winner = winners_.mutable_data_ptr<I>();
  }

 private:
  at::Tensor values_, winners_;
};

}  // namespace smex::kernels
