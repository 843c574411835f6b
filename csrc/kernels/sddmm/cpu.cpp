#include <torch/library.h>

#include "edges/cursor.h"
#include "edges/parallel.h"
#include "kernels/cpu/large_pages.h"
#include "kernels/message/unfused.h"
#include "kernels/sddmm/operator.h"

namespace smex::kernels {
namespace {

template <typename T, typename I>
void run_on_cpu(SddmmTask<T, I>& task) {
  task.num_pieces = num_pieces(task.rows.num_rows, task.rows.num_edges, task.program->elements);
  const auto pieces = SMEX_PICK(sddmm_pieces<T, I>);
  torch_workers().for_pieces(task.num_pieces,
                             [&](int64_t begin, int64_t end) { pieces(task, begin, end); });
}

at::Tensor sddmm_on_cpu(at::TensorList in_edges, at::TensorList out_edges, std::string_view message,
                        at::TensorList operands, at::OptionalIntArrayRef reduce_to) {
  const Message parsed = message_of(kSddmm, std::string(message));
  check_operands(kSddmm, parsed, in_edges, out_edges, operands);
  const EdgeTensors edges(in_edges);
  const MessageProgram program = compile_for(kSddmm, parsed, operands, reduced_shape(reduce_to));
  const at::Tensor out =
      empty_result(result_shape(edges.num_edges(), program), operands[0].options());
  if (!program.is_fused && out.numel() > 0) {
    unfused_sddmm_into(edges, parsed, operands, out);
  } else {
    with_sddmm_task(edges, program, operands, out, [](auto& task) { run_on_cpu(task); });
  }
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) { m.impl("sddmm", sddmm_on_cpu); }

}  // namespace smex::kernels
