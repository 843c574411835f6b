// smex::sddmm: a value for every edge, from the features of its ends and its own.
#include "kernels/sddmm/sddmm.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kernels/cpu/large_pages.h"
#include "kernels/message/dispatch.h"
#include "kernels/message/gradients.h"
#include "kernels/message/operands.h"
#include "kernels/message/parallel.h"
#include "kernels/message/unfused.h"

namespace smex::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kOp = "smex::sddmm";

std::optional<FeatureShape> reduced_shape(at::OptionalIntArrayRef reduce_to) {
  if (!reduce_to.has_value()) return std::nullopt;
  return reduce_to->vec();
}

at::Tensor sddmm_cpu(at::TensorList in_edges, at::TensorList out_edges, c10::string_view message,
                     at::TensorList operands, at::OptionalIntArrayRef reduce_to) {
  const EdgeTensors edges(kOp, in_edges);
  const Message parsed = message_of(kOp, std::string(message));
  check_operands(kOp, parsed, in_edges, out_edges, operands);
  const Program program = compile_for(kOp, parsed, operands, reduced_shape(reduce_to));
  std::vector<int64_t> shape = {edges.num_edges()};
  shape.insert(shape.end(), program.out_shape.begin(), program.out_shape.end());
  const at::Tensor out = empty_result(shape, operands[0].options());
  if (!program.is_fused && out.numel() > 0) {
    unfused_sddmm_into(edges, parsed, operands, out);
    return out;
  }
  dispatch_types(kOp, out.scalar_type(), edges.indptr.scalar_type(), [&](auto feature, auto id) {
    using T = typename decltype(feature)::type;
    using I = typename decltype(id)::type;
    const DenseOperands<T> dense(operands);
    SddmmTask<T, I> task;
    task.rows = edges.rows<I>();
    task.program = &program;
    task.operands = dense.rows();
    task.out = mutable_data_of<T>(out);
    task.num_pieces = num_pieces(task.rows.num_rows, task.rows.num_edges, program.elements);
    const auto pieces = SMEX_PICK(sddmm_pieces<T, I>);
    for_pieces(task.num_pieces, [&](int64_t begin, int64_t end) { pieces(task, begin, end); });
  });
  return out;
}

void check_reduce_to(const at::SymDimVector& shape, at::IntArrayRef reduce_to) {
  bool fits = reduce_to.size() <= shape.size();
  for (size_t back = 1; fits && back <= reduce_to.size(); ++back) {
    const int64_t size = reduce_to[reduce_to.size() - back];
    fits = size == 1 || shape[shape.size() - back] == size;
  }
  TORCH_CHECK_VALUE(fits, kOp, ": a message of shape ", c10::SymIntArrayRef(shape),
                    " cannot be summed to ", reduce_to);
}

at::Tensor sddmm_meta(at::TensorList in_edges, at::TensorList out_edges, c10::string_view message,
                      at::TensorList operands, at::OptionalIntArrayRef reduce_to) {
  const Message parsed = message_of(kOp, std::string(message));
  check_operands(kOp, parsed, in_edges, out_edges, operands);
  at::SymDimVector shape = symbolic_shape(kOp, parsed, operands);
  if (reduce_to.has_value()) {
    check_reduce_to(shape, *reduce_to);
    shape.assign(reduce_to->begin(), reduce_to->end());
  }
  shape.insert(shape.begin(), in_edges[1].sym_size(0));
  return at::empty_symint(shape, operands[0].options());
}

class SddmmFunction : public torch::autograd::Function<SddmmFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, at::TensorList operands, at::TensorList in_edges,
                            at::TensorList out_edges, const std::string& message,
                            at::OptionalIntArrayRef reduce_to) {
    at::AutoDispatchBelowADInplaceOrView guard;
    save_call(ctx, kOp, message_of(kOp, message), operands, in_edges, out_edges, /*others=*/2,
              /*needs_out_edges=*/true);
    if (reduce_to.has_value()) {
      std::vector<int64_t> full;
      for (const c10::SymInt& size : symbolic_shape(kOp, message_of(kOp, message), operands))
        full.push_back(size.guard_int(__FILE__, __LINE__));
      ctx->saved_data["full"] = full;
    }
    return call_sddmm(in_edges, out_edges, message, operands, reduce_to);
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
                          c10::string_view message, at::TensorList operands,
                          at::OptionalIntArrayRef reduce_to) {
  refuse_tangents(kOp, operands);
  if (wants_gradient(operands))
    return SddmmFunction::apply(operands, in_edges, out_edges, std::string(message), reduce_to);
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_sddmm(in_edges, out_edges, std::string(message), operands, reduce_to);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "sddmm(Tensor[] in_edges, Tensor[] out_edges, str message, Tensor[] operands, "
      "int[]? reduce_to=None) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, CPU, m) { m.impl("sddmm", sddmm_cpu); }
TORCH_LIBRARY_IMPL(smex, Meta, m) { m.impl("sddmm", sddmm_meta); }
TORCH_LIBRARY_IMPL(smex, Autograd, m) { m.impl("sddmm", sddmm_autograd); }

}  // namespace smex::kernels
