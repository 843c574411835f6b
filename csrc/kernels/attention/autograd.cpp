#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "edges/tensors.h"
#include "kernels/attention/operator.h"
#include "kernels/attention/steps.h"
#include "kernels/message/gradients.h"

namespace smex::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Inputs and saved tensors: the operands, the value, and both forms of the edges.
class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, at::TensorList operands, const at::Tensor& value,
                            at::TensorList in_edges, at::TensorList out_edges,
                            const std::string& score) {
    at::AutoDispatchBelowADInplaceOrView guard;
    TORCH_CHECK_VALUE(are_given(out_edges), kAttention,
                      ": the gradient needs out_edges, found none");
    const at::Tensor out = call_attention(in_edges, out_edges, score, operands, value);
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
                              std::string_view score, at::TensorList operands,
                              const at::Tensor& value) {
  refuse_tangents(kAttention, operands);
  refuse_tangents(kAttention, {value});
  if (wants_gradient(operands) || wants_gradient({value}))
    return AttentionFunction::apply(operands, value, in_edges, out_edges, std::string(score));
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_attention(in_edges, out_edges, score, operands, value);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, Autograd, m) { m.impl("attention", attention_autograd); }

}  // namespace smex::kernels
