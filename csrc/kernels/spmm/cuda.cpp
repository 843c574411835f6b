// smex::spmm and smex::spmm_extremum on CUDA.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/message/cuda/plan.h"
#include "kernels/message/dispatch.h"
#include "kernels/message/operands.h"
#include "kernels/message/unfused.h"
#include "kernels/numbers.h"
#include "kernels/spmm/checks.h"
#include "kernels/spmm/cuda/spmm.h"
#include "kernels/spmm/partials.h"

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

/// Fills `out` and, where it is defined, `winner`.
void spmm_into(const EdgeTensors& edges, const Program& program, const DeviceProgram& device,
               Reduce reduce, double empty, at::TensorList operands, const at::Tensor& out,
               const at::Tensor& winner) {
  const auto run = [&](auto feature, auto id) {
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
    run_on_cuda(task, device, out.options());
  };
  dispatch_types("smex::spmm", out.scalar_type(), edges.indptr.scalar_type(), run);
}

struct SpmmResult {
  at::Tensor out, winner;
};

SpmmResult reduce_messages(const char* op, const EdgeTensors& edges, const Message& message,
                           Reduce reduce, double empty, at::TensorList operands, bool need_winner) {
  const Program program = compile_for(op, message, operands);
  std::vector<int64_t> shape = {edges.num_rows()};
  shape.insert(shape.end(), program.out_shape.begin(), program.out_shape.end());
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
  spmm_into(edges, program, *device, reduce, empty, operands, result.out, result.winner);
  return result;
}

at::Tensor spmm_on_cuda(at::TensorList in_edges, at::TensorList out_edges, c10::string_view message,
                        c10::string_view reduce, at::TensorList operands) {
  constexpr const char* kOp = "smex::spmm";
  const EdgeTensors edges(kOp, in_edges);
  const Message parsed = message_of(kOp, std::string(message));
  check_operands(kOp, parsed, in_edges, out_edges, operands);
  const c10::cuda::CUDAGuard guard(in_edges[0].device());
  const Reduce kind = reduce_of(kOp, reduce, /*extremum=*/false);
  return reduce_messages(kOp, edges, parsed, kind, 0, operands, /*need_winner=*/false).out;
}

std::tuple<at::Tensor, at::Tensor> spmm_extremum_on_cuda(
    at::TensorList in_edges, at::TensorList out_edges, c10::string_view message,
    c10::string_view reduce, at::TensorList operands, bool zero_empty, bool need_winner) {
  constexpr const char* kOp = "smex::spmm_extremum";
  const EdgeTensors edges(kOp, in_edges);
  const Message parsed = message_of(kOp, std::string(message));
  check_operands(kOp, parsed, in_edges, out_edges, operands);
  const c10::cuda::CUDAGuard guard(in_edges[0].device());
  check_sums_at_root(kOp, parsed);
  const Reduce kind = reduce_of(kOp, reduce, /*extremum=*/true);
  const SpmmResult result = reduce_messages(kOp, edges, parsed, kind, empty_value(kind, zero_empty),
                                            operands, need_winner);
  return {result.out, need_winner ? result.winner : at::empty({0}, edges.indptr.options())};
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CUDA, m) {
  m.impl("spmm", spmm_on_cuda);
  m.impl("spmm_extremum", spmm_extremum_on_cuda);
}

}  // namespace smex::kernels
