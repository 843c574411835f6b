#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "edges/tensors.h"
#include "kernels/gat/operator.h"
#include "kernels/message/gradients.h"

namespace smex::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class GatFunction : public torch::autograd::Function<GatFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& left,
                               const at::Tensor& right, const at::Tensor& value,
                               at::TensorList in_edges, at::TensorList out_edges, double slope) {
    at::AutoDispatchBelowADInplaceOrView guard;
    TORCH_CHECK_VALUE(are_given(out_edges), kGat, ": the gradient needs out_edges, found none");
    const auto [out, log_sum] = call_gat(in_edges, out_edges, left, right, value, slope);
    variable_list kept = {left, right, value, out, log_sum};
    kept.insert(kept.end(), in_edges.begin(), in_edges.end());
    kept.insert(kept.end(), out_edges.begin(), out_edges.end());
    ctx->save_for_backward(kept);
    ctx->saved_data["in_edges"] = static_cast<int64_t>(in_edges.size());
    ctx->saved_data["slope"] = slope;
    ctx->set_materialize_grads(false);
    return {out, log_sum};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list kept = ctx->get_saved_variables();
    const auto in_edges = kept.begin() + 5;
    const auto out_edges = in_edges + ctx->saved_data["in_edges"].toInt();
    const variable_list in(in_edges, out_edges), out(out_edges, kept.end());
    const double slope = ctx->saved_data["slope"].toDouble();
    variable_list result(3 + in.size() + out.size() + 1);
    if (!grads[0].defined()) return result;
    if (at::GradMode::is_enabled()) {
      // Scores may be made of the values, whose gradient comes by the caller's graph and not by
      // this.
      variable_list inputs;
      for (int i = 0; i < 3; ++i) inputs.push_back(kept[i].view_as(kept[i]));
      const at::Tensor again = gat_by_steps(in, out, inputs[0], inputs[1], inputs[2], slope);
      const variable_list wanted =
          torch::autograd::grad({again}, inputs, {grads[0]}, /*retain_graph=*/true,
                                /*create_graph=*/true, /*allow_unused=*/true);
      std::copy(wanted.begin(), wanted.end(), result.begin());
      return result;
    }
    std::tie(result[0], result[1], result[2]) =
        call_gat_backward(in, out, kept[0], kept[1], kept[2], kept[3], kept[4], grads[0], slope);
    return result;
  }
};

Two gat_autograd(at::TensorList in_edges, at::TensorList out_edges, const at::Tensor& left,
                 const at::Tensor& right, const at::Tensor& value, double slope) {
  refuse_tangents(kGat, {left, right, value});
  const bool wanted = left.requires_grad() || right.requires_grad() || value.requires_grad();
  if (at::GradMode::is_enabled() && wanted) {
    const variable_list result = GatFunction::apply(left, right, value, in_edges, out_edges, slope);
    return {result[0], result[1].detach()};
  }
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_gat(in_edges, out_edges, left, right, value, slope);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, Autograd, m) { m.impl("gat_attention", gat_autograd); }

}  // namespace smex::kernels
