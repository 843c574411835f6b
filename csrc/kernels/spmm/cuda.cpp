#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/message/cuda/plan.h"
#include "kernels/message/operands.h"
#include "kernels/message/unfused.h"
#include "kernels/spmm/cuda/spmm.h"
#include "kernels/spmm/operator.h"
#include "kernels/spmm/partials.h"
#include "kernels/spmm/task.h"

namespace smex::kernels {
namespace {

/// Gives a task its temporary memory and launches it.
template <typename T, typename I>
void run_on_cuda(SpmmTask<T, I>& task, const DeviceProgram& device,
                 const at::TensorOptions& options) {
  const int64_t n = task.program->out_elements;
  constexpr int64_t kElementsPerThread = 16 / sizeof(T);
  task.num_pieces = num_cuda_pieces(task.rows.num_rows, task.rows.num_edges,
                                    (n + kElementsPerThread - 1) / kElementsPerThread);
  const Partials partials(task, options);
  spmm_cuda(task, device, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

struct SpmmResult {
  at::Tensor out, winner;
};

SpmmResult reduce_messages(const char* op, const EdgeTensors& edges, const Message& message,
                           Reduce reduce, double empty, at::TensorList operands, bool need_winner) {
  const MessageProgram program = compile_for(op, message, operands);
  const std::vector<int64_t> shape = result_shape(edges.num_rows(), program);
  SpmmResult result;
  result.out = at::empty(shape, operands[0].options());
  if (need_winner) result.winner = at::empty(shape, edges.indptr.options());
  if (result.out.numel() == 0) return result;
  const auto device = to_device(program, feature_shapes(operands));
  if (!device) {
    EdgeTensors positions = edges;
    positions.eids = at::Tensor();
    const at::Tensor values = unfused_message(edges, message, operands);
    return reduce_messages(op, positions, operand(Target::kEdge, 0), reduce, empty, {values},
                           need_winner);
  }
  with_spmm_task(edges, program, reduce, empty, operands, result.out, result.winner,
                 [&](auto& task) { run_on_cuda(task, *device, result.out.options()); });
  return result;
}

at::Tensor spmm_on_cuda(at::TensorList in_edges, at::TensorList out_edges, std::string_view message,
                        std::string_view reduce, at::TensorList operands) {
  const Message parsed = message_of(kSpmm, std::string(message));
  check_operands(kSpmm, parsed, in_edges, out_edges, operands);
  const EdgeTensors edges(in_edges);
  const c10::cuda::CUDAGuard guard(in_edges[0].device());
  const Reduce kind = reduce_of(kSpmm, reduce, /*extremum=*/false);
  return reduce_messages(kSpmm, edges, parsed, kind, 0, operands, /*need_winner=*/false).out;
}

std::tuple<at::Tensor, at::Tensor> extremum_on_cuda(at::TensorList in_edges,
                                                    at::TensorList out_edges,
                                                    std::string_view message,
                                                    std::string_view reduce,
                                                    at::TensorList operands, bool zero_empty,
                                                    bool need_winner, at::IntArrayRef offset) {
  const Message parsed = message_of(kExtremum, std::string(message));
  check_operands(kExtremum, parsed, in_edges, out_edges, operands);
  const EdgeTensors edges(in_edges);
  const c10::cuda::CUDAGuard guard(in_edges[0].device());
  check_sums_at_root(kExtremum, parsed);
  const Reduce kind = reduce_of(kExtremum, reduce, /*extremum=*/true);
  const SpmmResult result = reduce_messages(kExtremum, edges, parsed, kind,
                                            empty_value(kind, zero_empty), operands, need_winner);
  at::Tensor winner = need_winner ? result.winner : at::empty({0}, edges.indptr.options());
  count_from(winner, offset);
  return {result.out, winner};
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CUDA, m) {
  m.impl("spmm", spmm_on_cuda);
  m.impl("spmm_extremum", extremum_on_cuda);
}

}  // namespace smex::kernels
