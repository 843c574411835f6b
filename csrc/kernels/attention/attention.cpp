// smex::attention: softmax of a formula's values over in-edges, times the sources' values, in one
// pass; the weights are computed again for the gradient.
#include "kernels/attention/attention.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kernels/attention/steps.h"
#include "kernels/cpu/large_pages.h"
#include "kernels/message/dispatch.h"
#include "kernels/message/gradients.h"
#include "kernels/message/operands.h"
#include "kernels/message/parallel.h"

namespace smex::kernels {

at::Tensor attention_by_steps(at::TensorList in_edges, at::TensorList out_edges,
                              const std::string& score, at::TensorList operands,
                              const at::Tensor& value) {
  const at::Tensor scores = call_sddmm(in_edges, out_edges, score, operands, std::nullopt);
  static const auto softmax = c10::Dispatcher::singleton()
                                  .findSchemaOrThrow("smex::edge_softmax", "")
                                  .typed<at::Tensor(at::TensorList, const at::Tensor&)>();
  at::Tensor weight = softmax.call(in_edges, scores);
  if (weight.dim() == 2) weight = weight.unsqueeze(-1);
  return call_spmm(in_edges, out_edges, "u0 * e1", "sum", {value, weight});
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kOp = "smex::attention";

void check_attention(at::TensorList in_edges, at::TensorList out_edges, const Message& score,
                     at::TensorList operands, const at::Tensor& value) {
  check_operands(kOp, score, in_edges, out_edges, operands);
  TORCH_CHECK_VALUE(value.dim() == 3, kOp, ": expected values [sources, heads, features], found ",
                    value.sym_sizes());
  TORCH_CHECK_TYPE(value.scalar_type() == operands[0].scalar_type(), kOp,
                   ": expected operands and values of one type, found ", operands[0].scalar_type(),
                   " and ", value.scalar_type());
  TORCH_CHECK_VALUE(value.device() == in_edges[0].device(), kOp, ": the values are on ",
                    value.device(), ", the graph on ", in_edges[0].device());
  for (const Message& read : operands_of(score)) {
    const at::Tensor& x = operands[read->operand];
    TORCH_CHECK_VALUE(read->target != Target::kSource || x.sym_size(0) == value.sym_size(0), kOp,
                      ": expected values of ", x.sym_size(0), " sources, as operand ",
                      read->operand, " has, found ", value.sym_size(0));
  }
  const at::SymDimVector shape = symbolic_shape(kOp, score, operands);
  const auto heads = value.sym_size(1);
  const bool fits =
      (shape.size() == 1 || (shape.size() == 2 && shape[1] == 1)) && shape[0] == heads;
  TORCH_CHECK_VALUE(fits, kOp, ": expected scores of shape [", heads, "] or [", heads,
                    ", 1] for values ", value.sym_sizes(), ", found ", c10::SymIntArrayRef(shape));
}

at::Tensor attention_cpu(at::TensorList in_edges, at::TensorList out_edges, c10::string_view score,
                         at::TensorList operands, const at::Tensor& value) {
  const EdgeTensors edges(kOp, in_edges);
  const Message parsed = message_of(kOp, std::string(score));
  check_attention(in_edges, out_edges, parsed, operands, value);
  const Program program = compile_for(kOp, parsed, operands);
  if (!program.is_fused)
    return attention_by_steps(in_edges, out_edges, std::string(score), operands, value);
  const int64_t heads = value.size(1), inner = value.size(2);
  const at::Tensor out = empty_result({edges.num_rows(), heads, inner}, value.options());
  if (out.numel() == 0) return out;
  const at::Tensor dense_value = value.contiguous();
  dispatch_types(kOp, value.scalar_type(), edges.indptr.scalar_type(), [&](auto feature, auto id) {
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
    for_pieces(task.num_pieces, [&](int64_t begin, int64_t end) { pieces(task, begin, end); });
    if (task.num_pieces > 1) SMEX_PICK(attention_finish<T, I>)(task);
  });
  return out;
}

at::Tensor attention_meta(at::TensorList in_edges, at::TensorList out_edges, c10::string_view score,
                          at::TensorList operands, const at::Tensor& value) {
  check_attention(in_edges, out_edges, message_of(kOp, std::string(score)), operands, value);
  return at::empty_symint({in_edges[0].sym_size(0) - 1, value.sym_size(1), value.sym_size(2)},
                          value.options());
}

at::Tensor attention_cuda(at::TensorList in_edges, at::TensorList out_edges, c10::string_view score,
                          at::TensorList operands, const at::Tensor& value) {
  check_attention(in_edges, out_edges, message_of(kOp, std::string(score)), operands, value);
  return attention_by_steps(in_edges, out_edges, std::string(score), operands, value);
}

const auto& attention_op() {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow(kOp, "").typed<decltype(attention_cpu)>();
  return op;
}

/// Inputs and saved tensors: the operands, the value, and both forms of the edges.
class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, at::TensorList operands, const at::Tensor& value,
                            at::TensorList in_edges, at::TensorList out_edges,
                            const std::string& score) {
    at::AutoDispatchBelowADInplaceOrView guard;
    TORCH_CHECK_VALUE(!out_edges.empty(), kOp, ": the gradient needs out_edges, found none");
    const at::Tensor out = attention_op().call(in_edges, out_edges, score, operands, value);
    variable_list kept(operands.begin(), operands.end());
    kept.push_back(value);
    kept.insert(kept.end(), in_edges.begin(), in_edges.end());
    kept.insert(kept.end(), out_edges.begin(), out_edges.end());
    ctx->save_for_backward(kept);
    ctx->saved_data["dense"] = static_cast<int64_t>(operands.size()) + 1;
    ctx->saved_data["in_edges"] = static_cast<int64_t>(in_edges.size());
    ctx->saved_data["score"] = score;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list kept = ctx->get_saved_variables();
    const auto first_edge = kept.begin() + ctx->saved_data["dense"].toInt();
    const auto first_out_edge = first_edge + ctx->saved_data["in_edges"].toInt();
    const variable_list in(first_edge, first_out_edge), out(first_out_edge, kept.end());
    const bool differentiable = at::GradMode::is_enabled();
    variable_list dense(kept.begin(), first_edge), wanted;
    std::vector<size_t> places;
    for (size_t i = 0; i < dense.size(); ++i) {
      if (!dense[i].requires_grad()) continue;
      // One may be made of another, whose gradient comes by the caller's graph and not by this one.
      dense[i] = differentiable ? dense[i].view_as(dense[i]) : dense[i].detach().requires_grad_();
      wanted.push_back(dense[i]);
      places.push_back(i);
    }
    const at::AutoGradMode recording(true);
    const at::Tensor again = attention_by_steps(in, out, ctx->saved_data["score"].toStringRef(),
                                                {dense.data(), dense.size() - 1}, dense.back());
    const variable_list found =
        torch::autograd::grad({again}, wanted, {grads[0]}, /*retain_graph=*/differentiable,
                              /*create_graph=*/differentiable, /*allow_unused=*/true);
    variable_list result(kept.size() + 1);
    for (size_t i = 0; i < places.size(); ++i) result[places[i]] = found[i];
    return result;
  }
};

at::Tensor attention_autograd(at::TensorList in_edges, at::TensorList out_edges,
                              c10::string_view score, at::TensorList operands,
                              const at::Tensor& value) {
  refuse_tangents(kOp, operands);
  refuse_tangents(kOp, {value});
  if (wants_gradient(operands) || wants_gradient({value}))
    return AttentionFunction::apply(operands, value, in_edges, out_edges, std::string(score));
  at::AutoDispatchBelowADInplaceOrView guard;
  return attention_op().call(in_edges, out_edges, score, operands, value);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "attention(Tensor[] in_edges, Tensor[] out_edges, str score, Tensor[] operands, "
      "Tensor value) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, CPU, m) { m.impl("attention", attention_cpu); }

TORCH_LIBRARY_IMPL(smex, CUDA, m) { m.impl("attention", attention_cuda); }

TORCH_LIBRARY_IMPL(smex, Meta, m) { m.impl("attention", attention_meta); }

TORCH_LIBRARY_IMPL(smex, Autograd, m) { m.impl("attention", attention_autograd); }

}  // namespace smex::kernels
