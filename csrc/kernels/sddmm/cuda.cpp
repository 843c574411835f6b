// smex::sddmm on CUDA.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/message/dispatch.h"
#include "kernels/message/gradients.h"
#include "kernels/message/operands.h"
#include "kernels/message/unfused.h"
#include "kernels/sddmm/cuda/sddmm.h"

namespace smex::kernels {
namespace {

constexpr const char* kOp = "smex::sddmm";

void sddmm_into(const EdgeTensors& edges, const Program& program, const DeviceProgram& device,
                at::TensorList operands, const at::Tensor& out) {
  const auto run = [&](auto feature, auto id) {
    using T = typename decltype(feature)::type;
    using I = typename decltype(id)::type;
    const DenseOperands<T> dense(operands);
    SddmmTask<T, I> task;
    task.rows = edges.rows<I>();
    task.program = &program;
    task.operands = dense.rows();
    task.out = mutable_data_of<T>(out);
    sddmm_cuda(task, device, c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  };
  dispatch_types(kOp, out.scalar_type(), edges.indptr.scalar_type(), run);
}

at::Tensor sddmm_on_cuda(at::TensorList in_edges, at::TensorList out_edges,
                         c10::string_view message, at::TensorList operands,
                         at::OptionalIntArrayRef reduce_to) {
  const EdgeTensors edges(kOp, in_edges);
  const Message parsed = message_of(kOp, std::string(message));
  check_operands(kOp, parsed, in_edges, out_edges, operands);
  const c10::cuda::CUDAGuard guard(in_edges[0].device());
  std::optional<FeatureShape> reduced;
  if (reduce_to.has_value()) reduced = reduce_to->vec();
  const Program program = compile_for(kOp, parsed, operands, reduced);
  std::vector<int64_t> shape = {edges.num_edges()};
  shape.insert(shape.end(), program.out_shape.begin(), program.out_shape.end());
  const at::Tensor out = at::empty(shape, operands[0].options());
  if (out.numel() == 0) return out;
  const auto device = to_device(program, feature_shapes(operands));
  if (device) {
    sddmm_into(edges, program, *device, operands, out);
  } else {
    unfused_sddmm_into(edges, parsed, operands, out);
  }
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CUDA, m) { m.impl("sddmm", sddmm_on_cuda); }

}  // namespace smex::kernels
