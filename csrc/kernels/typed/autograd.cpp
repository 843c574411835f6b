#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <array>

#include "edges/tensors.h"
#include "kernels/message/gradients.h"
#include "kernels/typed/operator.h"

namespace smex::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The tensors that T is linear in; a call has three of them and returns T's derivative by the one
/// that it lacks.
enum Role { kX, kWeight, kY, kFactor, kRoles };
using Roles = std::array<at::Tensor, kRoles>;

struct TypedEdges {
  variable_list in_edges, out_edges;
  at::Tensor types;
  c10::SymInt num_types;
};

at::Tensor derivative(Role role, const TypedEdges& by, const Roles& of) {
  const Factor factor = of[kFactor].defined() ? Factor(of[kFactor]) : std::nullopt;
  switch (role) {
    case kX:
      return call_typed_spmm(by.out_edges, by.in_edges, of[kY], of[kWeight].transpose(2, 3),
                             by.types, factor);
    case kWeight:
      return call_typed_outer(by.in_edges, by.out_edges, of[kX], of[kY], by.types, factor,
                              by.num_types);
    case kY:
      return call_typed_spmm(by.in_edges, by.out_edges, of[kX], of[kWeight], by.types, factor);
    default:
      return call_typed_sddmm(by.in_edges, by.out_edges, of[kX], of[kWeight], of[kY], by.types);
  }
}

const char* name_of(Role result) {
  return result == kY ? kTypedSpmm : result == kWeight ? kTypedOuter : kTypedSddmm;
}

class TypedFunction : public torch::autograd::Function<TypedFunction> {
 public:
  /// Autograd finds the tensors in `tensors`, those of `given` that are defined.
  static at::Tensor forward(AutogradContext* ctx, at::TensorList /*tensors*/, const Roles& given,
                            Role result, const TypedEdges& by) {
    at::AutoDispatchBelowADInplaceOrView guard;
    TORCH_CHECK_VALUE(are_given(by.out_edges) || !given[kX].requires_grad(), name_of(result),
                      ": the gradient of x needs out_edges, found none");
    variable_list kept(given.begin(), given.end());
    kept.push_back(by.types);
    kept.insert(kept.end(), by.in_edges.begin(), by.in_edges.end());
    kept.insert(kept.end(), by.out_edges.begin(), by.out_edges.end());
    ctx->save_for_backward(kept);
    ctx->saved_data["result"] = static_cast<int64_t>(result);
    ctx->saved_data["in_edges"] = static_cast<int64_t>(by.in_edges.size());
    ctx->saved_data["num_types"] = by.num_types;
    return derivative(result, by, given);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list kept = ctx->get_saved_variables();
    const auto result = static_cast<Role>(ctx->saved_data["result"].toInt());
    const auto in_edges = kept.begin() + kRoles + 1;
    const auto out_edges = in_edges + ctx->saved_data["in_edges"].toInt();
    const TypedEdges by{variable_list(in_edges, out_edges), variable_list(out_edges, kept.end()),
                        kept[kRoles], ctx->saved_data["num_types"].toSymInt()};
    Roles given;
    std::copy_n(kept.begin(), static_cast<int>(kRoles), given.begin());
    Roles of = given;
    of[result] = grads[0];
    variable_list wanted;  // for all arguments of `forward`, in their order
    for (int role = 0; role < kRoles; ++role) {
      if (role == result || !given[role].defined()) continue;
      at::Tensor grad;
      if (ctx->needs_input_grad(wanted.size())) {
        grad = derivative(static_cast<Role>(role), by, of);
        if (role == kFactor && given[kFactor].sym_size(1) != grad.sym_size(1))
          grad = grad.sum(1, /*keepdim=*/true);
      }
      wanted.push_back(grad);
    }
    wanted.resize(wanted.size() + 3);
    return wanted;
  }
};

at::Tensor differentiable(Role result, const TypedEdges& by, const Roles& given) {
  variable_list tensors;
  for (const at::Tensor& tensor : given)
    if (tensor.defined()) tensors.push_back(tensor);
  refuse_tangents(name_of(result), tensors);
  if (wants_gradient(tensors))
    return TypedFunction::apply(at::TensorList(tensors), given, result, by);
  at::AutoDispatchBelowADInplaceOrView guard;
  return derivative(result, by, given);
}

at::Tensor typed_spmm_autograd(at::TensorList in_edges, at::TensorList out_edges,
                               const at::Tensor& x, const at::Tensor& weight,
                               const at::Tensor& types, const Factor& factor) {
  return differentiable(kY, {in_edges.vec(), out_edges.vec(), types, weight.sym_size(0)},
                        {x, weight, at::Tensor(), factor.value_or(at::Tensor())});
}

at::Tensor typed_sddmm_autograd(at::TensorList in_edges, at::TensorList out_edges,
                                const at::Tensor& x, const at::Tensor& weight, const at::Tensor& y,
                                const at::Tensor& types) {
  return differentiable(kFactor, {in_edges.vec(), out_edges.vec(), types, weight.sym_size(0)},
                        {x, weight, y, at::Tensor()});
}

at::Tensor typed_outer_autograd(at::TensorList in_edges, at::TensorList out_edges,
                                const at::Tensor& x, const at::Tensor& y, const at::Tensor& types,
                                const Factor& factor, c10::SymInt num_types) {
  return differentiable(kWeight, {in_edges.vec(), out_edges.vec(), types, num_types},
                        {x, at::Tensor(), y, factor.value_or(at::Tensor())});
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, Autograd, m) {
  m.impl("typed_spmm", typed_spmm_autograd);
  m.impl("typed_sddmm", typed_sddmm_autograd);
  m.impl("typed_outer", typed_outer_autograd);
}

}  // namespace smex::kernels
