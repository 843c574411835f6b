// What the files that register the operator share.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "kernels/message/dispatch.h"
#include "kernels/message/operands.h"
#include "kernels/sddmm/sddmm.h"

namespace smex::kernels {

constexpr const char* kSddmm = "smex::sddmm";

inline std::optional<FeatureShape> reduced_shape(at::OptionalIntArrayRef reduce_to) {
  if (!reduce_to.has_value()) return std::nullopt;
  return reduce_to->vec();
}

/// Calls `run(task)` with the task that fills `out`; its pieces are for `run` to choose.
template <typename Run>
void with_sddmm_task(const EdgeTensors& edges, const MessageProgram& program,
                     at::TensorList operands, const at::Tensor& out, const Run& run) {
  dispatch_types(kSddmm, out.scalar_type(), edges.indptr.scalar_type(), [&](auto feature, auto id) {
    using T = typename decltype(feature)::type;
    using I = typename decltype(id)::type;
    const DenseOperands<T> dense(operands);
    SddmmTask<T, I> task;
    task.rows = edges.rows<I>();
    task.program = &program;
    task.operands = dense.rows();
    task.out = mutable_data_of<T>(out);
    run(task);
  });
}

}  // namespace smex::kernels
