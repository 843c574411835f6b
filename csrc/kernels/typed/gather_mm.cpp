// smex::gather_mm and gather_outer: rows that are multiplied by a matrix each, which is as if each
// had one edge, from itself.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kernels/message/autocast.h"
#include "kernels/message/gradients.h"
#include "kernels/operator_of.h"
#include "kernels/typed/operator.h"

namespace smex::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void check_gather_mm(const char* op, const at::Tensor& a, const at::Tensor& other,
                     const at::Tensor& index) {
  TORCH_CHECK_VALUE(a.dim() == 2, op, ": expected rows [rows, k], found ", a.sym_sizes());
  TORCH_CHECK_TYPE(a.is_floating_point() && a.scalar_type() == other.scalar_type(), op,
                   ": expected two operands of one floating-point type, found ", a.scalar_type(),
                   " and ", other.scalar_type());
  TORCH_CHECK_TYPE(index.scalar_type() == at::kLong, op, ": expected an index of int64, found ",
                   index.scalar_type());
  TORCH_CHECK_VALUE(index.dim() == 1 && index.sym_size(0) == a.sym_size(0), op,
                    ": expected an index for each of ", a.sym_size(0), " rows, found ",
                    index.sym_sizes());
}

at::Tensor gather_mm_meta(const at::Tensor& a, const at::Tensor& b, const at::Tensor& index) {
  check_gather_mm(kGatherMm, a, b, index);
  TORCH_CHECK_VALUE(b.dim() == 3 && b.sym_size(1) == a.sym_size(1), kGatherMm,
                    ": expected matrices [matrices, ", a.sym_size(1), ", n], found ",
                    b.sym_sizes());
  return at::empty_symint({a.sym_size(0), b.sym_size(2)}, a.options());
}

at::Tensor gather_outer_meta(const at::Tensor& a, const at::Tensor& g, const at::Tensor& index,
                             c10::SymInt num_matrices) {
  check_gather_mm(kGatherOuter, a, g, index);
  TORCH_CHECK_VALUE(g.dim() == 2 && g.sym_size(0) == a.sym_size(0), kGatherOuter, ": expected ",
                    a.sym_size(0), " rows twice, found ", g.sym_sizes());
  return at::empty_symint({num_matrices, a.sym_size(1), g.sym_size(1)}, a.options());
}

std::vector<at::Tensor> one_edge_each(const at::Tensor& index) {
  const int64_t rows = index.size(0);
  const at::Tensor numbers = at::arange(rows + 1, index.options());
  return {numbers, numbers.narrow(0, 0, rows)};
}

at::Tensor gather_mm(const at::Tensor& a, const at::Tensor& b, const at::Tensor& index) {
  gather_mm_meta(a, b, index);
  return call_typed_spmm(one_edge_each(index), {}, a.unsqueeze(1), b.unsqueeze(1), index,
                         std::nullopt)
      .squeeze(1);
}

at::Tensor gather_outer(const at::Tensor& a, const at::Tensor& g, const at::Tensor& index,
                        int64_t num_matrices) {
  gather_outer_meta(a, g, index, num_matrices);
  return call_typed_outer(one_edge_each(index), {}, a.unsqueeze(1), g.unsqueeze(1), index,
                          std::nullopt, num_matrices)
      .squeeze(1);
}

class GatherMmFunction : public torch::autograd::Function<GatherMmFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& a, const at::Tensor& b,
                            const at::Tensor& index) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({a, b, index});
    return call_gather_mm(a, b, index);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list kept = ctx->get_saved_variables();
    const at::Tensor &a = kept[0], &b = kept[1], &index = kept[2];
    variable_list wanted(3);
    if (ctx->needs_input_grad(0)) wanted[0] = call_gather_mm(grads[0], b.transpose(1, 2), index);
    if (ctx->needs_input_grad(1)) wanted[1] = call_gather_outer(a, grads[0], index, b.sym_size(0));
    return wanted;
  }
};

class GatherOuterFunction : public torch::autograd::Function<GatherOuterFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& a, const at::Tensor& g,
                            const at::Tensor& index, const c10::SymInt& num_matrices) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({a, g, index});
    return call_gather_outer(a, g, index, num_matrices);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list kept = ctx->get_saved_variables();
    const at::Tensor &a = kept[0], &g = kept[1], &index = kept[2];
    variable_list wanted(4);
    if (ctx->needs_input_grad(0)) wanted[0] = call_gather_mm(g, grads[0].transpose(1, 2), index);
    if (ctx->needs_input_grad(1)) wanted[1] = call_gather_mm(a, grads[0], index);
    return wanted;
  }
};

at::Tensor gather_mm_autograd(const at::Tensor& a, const at::Tensor& b, const at::Tensor& index) {
  refuse_tangents(kGatherMm, {a, b});
  if (wants_gradient({a, b})) return GatherMmFunction::apply(a, b, index);
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_gather_mm(a, b, index);
}

at::Tensor gather_outer_autograd(const at::Tensor& a, const at::Tensor& g, const at::Tensor& index,
                                 c10::SymInt num_matrices) {
  refuse_tangents(kGatherOuter, {a, g});
  if (wants_gradient({a, g})) return GatherOuterFunction::apply(a, g, index, num_matrices);
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_gather_outer(a, g, index, num_matrices);
}

at::Tensor gather_mm_lowered(const at::Tensor& a, const at::Tensor& b, const at::Tensor& index) {
  const BelowAutocast guard;
  const std::vector<at::Tensor> operands = lower({a, b}, a.device().type());
  return call_gather_mm(operands[0], operands[1], index);
}

}  // namespace

at::Tensor call_gather_mm(const at::Tensor& a, const at::Tensor& b, const at::Tensor& index) {
  static const auto op = operator_of<decltype(gather_mm_meta)>(kGatherMm);
  return op.call(a, b, index);
}

at::Tensor call_gather_outer(const at::Tensor& a, const at::Tensor& g, const at::Tensor& index,
                             c10::SymInt num_matrices) {
  static const auto op = operator_of<decltype(gather_outer_meta)>(kGatherOuter);
  return op.call(a, g, index, std::move(num_matrices));
}

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def("gather_mm(Tensor a, Tensor b, Tensor index) -> Tensor");
  m.def("gather_outer(Tensor a, Tensor g, Tensor index, SymInt num_matrices) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("gather_mm", gather_mm_meta);
  m.impl("gather_outer", gather_outer_meta);
}

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) {
  m.impl("gather_mm", gather_mm);
  m.impl("gather_outer", gather_outer);
}

TORCH_LIBRARY_IMPL(smex, Autograd, m) {
  m.impl("gather_mm", gather_mm_autograd);
  m.impl("gather_outer", gather_outer_autograd);
}

TORCH_LIBRARY_IMPL(smex, AutocastCPU, m) { m.impl("gather_mm", gather_mm_lowered); }
TORCH_LIBRARY_IMPL(smex, AutocastCUDA, m) { m.impl("gather_mm", gather_mm_lowered); }

}  // namespace smex::kernels
