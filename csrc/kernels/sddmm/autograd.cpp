#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kernels/message/gradients.h"
#include "kernels/sddmm/operator.h"

namespace smex::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class SddmmFunction : public torch::autograd::Function<SddmmFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, at::TensorList operands, at::TensorList in_edges,
                            at::TensorList out_edges, const std::string& message,
                            at::OptionalIntArrayRef reduce_to) {
    at::AutoDispatchBelowADInplaceOrView guard;
    const at::Tensor out = call_sddmm(in_edges, out_edges, message, operands, reduce_to);
    save_call(ctx, kSddmm, message_of(kSddmm, message), operands, in_edges, out_edges, /*others=*/2,
              /*needs_out_edges=*/true);
    if (reduce_to.has_value()) {
      std::vector<int64_t> full;
      for (const c10::SymInt& size : symbolic_shape(kSddmm, message_of(kSddmm, message), operands))
        full.push_back(size.guard_int(__FILE__, __LINE__));
      ctx->saved_data["full"] = full;
    }
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const SavedMessage saved = saved_call(ctx);
    const at::Tensor grad = repeated(ctx, grads[0]);
    return input_gradients(ctx, saved,
                           [&](int i) { return operand_gradient(saved, i, Target::kEdge, grad); });
  }

 private:
  /// The gradient of a sum belongs to each of the elements it adds up. The last dimension is left
  /// to the derivative, which knows of it.
  static at::Tensor repeated(AutogradContext* ctx, const at::Tensor& grad) {
    const auto full = ctx->saved_data.find("full");
    if (full == ctx->saved_data.end()) return grad;
    const std::vector<int64_t> sizes = full->second.toIntVector();
    std::vector<c10::SymInt> own = grad.sym_sizes().vec();
    own.insert(own.begin() + 1, sizes.size() + 1 - own.size(), 1);
    std::vector<c10::SymInt> wide = own;
    for (size_t d = 0; d + 1 < sizes.size(); ++d) wide[d + 1] = sizes[d];
    return grad.view_symint(own).expand_symint(wide);
  }
};

at::Tensor sddmm_autograd(at::TensorList in_edges, at::TensorList out_edges,
                          std::string_view message, at::TensorList operands,
                          at::OptionalIntArrayRef reduce_to) {
  refuse_tangents(kSddmm, operands);
  if (wants_gradient(operands))
    return SddmmFunction::apply(operands, in_edges, out_edges, std::string(message), reduce_to);
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_sddmm(in_edges, out_edges, message, operands, reduce_to);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, Autograd, m) { m.impl("sddmm", sddmm_autograd); }

}  // namespace smex::kernels
