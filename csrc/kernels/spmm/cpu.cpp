#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "edges/cursor.h"
#include "edges/parallel.h"
#include "kernels/cpu/large_pages.h"
#include "kernels/message/operands.h"
#include "kernels/message/unfused.h"
#include "kernels/spmm/operator.h"
#include "kernels/spmm/partials.h"
#include "kernels/spmm/task.h"

namespace smex::kernels {
namespace {

template <typename T, typename I>
void run_on_cpu(SpmmTask<T, I>& task, const at::TensorOptions& options) {
  const int64_t n = task.program->out_elements;
  task.num_pieces =
      num_pieces(task.rows.num_rows, task.rows.num_edges, std::max(n, task.program->elements));
  const Partials partials(task, options);
  const auto pieces = SMEX_PICK(spmm_pieces<T, I>);
  torch_workers().for_pieces(task.num_pieces,
                             [&](int64_t begin, int64_t end) { pieces(task, begin, end); });
  if (task.num_pieces > 1) SMEX_PICK(spmm_finish<T, I>)(task);
}

/// Fills `out` and, where it is defined, `winner`.
void spmm_into(const EdgeTensors& edges, const Message& message, const MessageProgram& program,
               Reduce reduce, double empty, at::TensorList operands, const at::Tensor& out,
               const at::Tensor& winner) {
  if (!program.is_fused && out.numel() > 0) {
    const at::Tensor values = unfused_message(edges, message, operands);
    const Message copy = operand(Target::kEdge, 0);
    EdgeTensors positions = edges;
    positions.eids = at::Tensor();
    return spmm_into(positions, copy, compile_for(kSpmm, copy, {values}), reduce, empty, {values},
                     out, winner);
  }
  with_spmm_task(edges, program, reduce, empty, operands, out, winner,
                 [&](auto& task) { run_on_cpu(task, out.options()); });
}

at::Tensor spmm_on_cpu(at::TensorList in_edges, at::TensorList out_edges, std::string_view message,
                       std::string_view reduce, at::TensorList operands) {
  const Message parsed = message_of(kSpmm, std::string(message));
  check_operands(kSpmm, parsed, in_edges, out_edges, operands);
  const EdgeTensors edges(in_edges);
  const MessageProgram program = compile_for(kSpmm, parsed, operands);
  const at::Tensor out =
      empty_result(result_shape(edges.num_rows(), program), operands[0].options());
  spmm_into(edges, parsed, program, reduce_of(kSpmm, reduce, /*extremum=*/false), 0, operands, out,
            at::Tensor());
  return out;
}

std::tuple<at::Tensor, at::Tensor> extremum_on_cpu(at::TensorList in_edges,
                                                   at::TensorList out_edges,
                                                   std::string_view message,
                                                   std::string_view reduce, at::TensorList operands,
                                                   bool zero_empty, bool need_winner,
                                                   at::IntArrayRef offset) {
  const Message parsed = message_of(kExtremum, std::string(message));
  check_operands(kExtremum, parsed, in_edges, out_edges, operands);
  check_sums_at_root(kExtremum, parsed);
  const EdgeTensors edges(in_edges);
  const MessageProgram program = compile_for(kExtremum, parsed, operands);
  const std::vector<int64_t> shape = result_shape(edges.num_rows(), program);
  const at::Tensor out = empty_result(shape, operands[0].options());
  const auto ids = edges.indptr.options();
  at::Tensor winner = need_winner ? empty_result(shape, ids) : at::empty({0}, ids);
  const Reduce kind = reduce_of(kExtremum, reduce, /*extremum=*/true);
  spmm_into(edges, parsed, program, kind, empty_value(kind, zero_empty), operands, out,
            need_winner ? winner : at::Tensor());
  count_from(winner, offset);
  return {out, winner};
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("spmm", spmm_on_cpu);
  m.impl("spmm_extremum", extremum_on_cpu);
}

}  // namespace smex::kernels
