#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/message/unfused.h"
#include "kernels/sddmm/cuda/sddmm.h"
#include "kernels/sddmm/operator.h"

namespace smex::kernels {
namespace {

at::Tensor sddmm_on_cuda(at::TensorList in_edges, at::TensorList out_edges,
                         std::string_view message, at::TensorList operands,
                         at::OptionalIntArrayRef reduce_to) {
  const Message parsed = message_of(kSddmm, std::string(message));
  check_operands(kSddmm, parsed, in_edges, out_edges, operands);
  const EdgeTensors edges(in_edges);
  const c10::cuda::CUDAGuard guard(in_edges[0].device());
  const MessageProgram program = compile_for(kSddmm, parsed, operands, reduced_shape(reduce_to));
  const at::Tensor out = at::empty(result_shape(edges.num_edges(), program), operands[0].options());
  if (out.numel() == 0) return out;
  const auto device = to_device(program, feature_shapes(operands));
  if (!device) {
    unfused_sddmm_into(edges, parsed, operands, out);
    return out;
  }
  with_sddmm_task(edges, program, operands, out, [&](auto& task) {
    sddmm_cuda(task, *device, c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CUDA, m) { m.impl("sddmm", sddmm_on_cuda); }

}  // namespace smex::kernels
