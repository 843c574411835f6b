#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "edges/cursor.h"
#include "edges/parallel.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/operator.h"
#include "kernels/attention/steps.h"
#include "kernels/cpu/large_pages.h"
#include "kernels/message/dispatch.h"
#include "kernels/message/operands.h"

namespace smex::kernels {
namespace {

at::Tensor attention_on_cpu(at::TensorList in_edges, at::TensorList out_edges,
                            std::string_view score, at::TensorList operands,
                            const at::Tensor& value) {
  const Message parsed = message_of(kAttention, std::string(score));
  check_attention(in_edges, out_edges, parsed, operands, value);
  const EdgeTensors edges(in_edges);
  const MessageProgram program = compile_for(kAttention, parsed, operands);
  if (!program.is_fused) return attention_by_steps(in_edges, out_edges, score, operands, value);
  const int64_t heads = value.size(1), inner = value.size(2);
  const at::Tensor out = empty_result({edges.num_rows(), heads, inner}, value.options());
  if (out.numel() == 0) return out;
  const at::Tensor dense_value = value.contiguous();
  dispatch_types(
      kAttention, value.scalar_type(), edges.indptr.scalar_type(), [&](auto feature, auto id) {
        using T = typename decltype(feature)::type;
        using I = typename decltype(id)::type;
        using C = accumulate_t<T>;
        const DenseOperands<T> dense(operands);
        FormulaAttentionTask<T, I> task;
        task.rows = edges.rows<I>();
        task.heads = heads;
        task.inner = inner;
        task.program = &program;
        task.operands = dense.rows();
        task.value = data_of<T>(dense_value);
        task.out = mutable_data_of<T>(out);
        task.num_pieces =
            num_pieces(task.rows.num_rows, task.rows.num_edges, program.elements + heads * inner);
        const at::Tensor shared = at::empty({task.num_pieces * 2 * heads * (inner + 2)},
                                            value.options().dtype(sum_type(value.scalar_type())));
        task.shared = mutable_data_of<C>(shared);
        const auto pieces = SMEX_PICK(attention_pieces<T, I>);
        torch_workers().for_pieces(task.num_pieces,
                                   [&](int64_t begin, int64_t end) { pieces(task, begin, end); });
        if (task.num_pieces > 1) SMEX_PICK(attention_finish<T, I>)(task);
      });
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) { m.impl("attention", attention_on_cpu); }

}  // namespace smex::kernels
