#include "kernels/typed/operator.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "kernels/operator_of.h"

namespace smex::kernels {
namespace {

void check_type(const TypedCall& call, const at::Tensor& tensor) {
  TORCH_CHECK_TYPE(tensor.is_floating_point() && tensor.scalar_type() == call.x.scalar_type(),
                   call.op,
                   ": expected rows, matrices and factors of one floating-point type, found ",
                   call.x.scalar_type(), " and ", tensor.scalar_type());
}

void check_rows_of(const TypedCall& call, const char* name, const at::Tensor& rows) {
  TORCH_CHECK_VALUE(rows.dim() == 3, call.op, ": expected ", name,
                    " [rows, blocks, features], found ", rows.sym_sizes());
  check_type(call, rows);
  TORCH_CHECK_VALUE(rows.sym_size(1) == call.x.sym_size(1), call.op, ": expected ", name, " of ",
                    call.x.sym_size(1), " blocks, found ", rows.sym_size(1));
}

}  // namespace

void check_typed(const TypedCall& call) {
  check_edges(call.op, call.in_edges);
  const at::Tensor &x = call.x, &indices = call.in_edges[1];
  check_rows_of(call, "x", x);
  if (call.y.defined()) {
    check_rows_of(call, "y", call.y);
    TORCH_CHECK_VALUE(call.y.sym_size(0) == call.in_edges[0].sym_size(0) - 1, call.op,
                      ": expected a row of y for each of ", call.in_edges[0].sym_size(0) - 1,
                      " rows of edges, found ", call.y.sym_size(0));
  }
  if (call.weight.defined()) {
    const at::Tensor& weight = call.weight;
    const bool fits = weight.dim() == 4 && weight.sym_size(1) == x.sym_size(1) &&
                      weight.sym_size(2) == x.sym_size(2) &&
                      (!call.y.defined() || weight.sym_size(3) == call.y.sym_size(2));
    TORCH_CHECK_VALUE(fits, call.op, ": expected matrices [types, ", x.sym_size(1), ", ",
                      x.sym_size(2), ", features of a result], found ", weight.sym_sizes());
    check_type(call, weight);
  }
  TORCH_CHECK_TYPE(call.types.scalar_type() == at::kLong, call.op,
                   ": expected types of edges as int64, found ", call.types.scalar_type());
  TORCH_CHECK_VALUE(call.types.dim() == 1 && call.types.sym_size(0) == indices.sym_size(0), call.op,
                    ": expected a type for each of ", indices.sym_size(0), " edges, found ",
                    call.types.sym_sizes());
  if (call.factor.defined()) {
    const at::Tensor& factor = call.factor;
    const bool fits = factor.dim() == 2 && factor.sym_size(0) == indices.sym_size(0) &&
                      (factor.sym_size(1) == 1 || factor.sym_size(1) == x.sym_size(1));
    TORCH_CHECK_VALUE(fits, call.op, ": expected factors [", indices.sym_size(0), ", ",
                      x.sym_size(1), "] or of 1 column, found ", factor.sym_sizes());
    check_type(call, factor);
  }
  for (const at::Tensor& tensor : {x, call.weight, call.y, call.types, call.factor}) {
    TORCH_CHECK_VALUE(!tensor.defined() || tensor.device() == indices.device(), call.op,
                      ": an argument is on ", tensor.defined() ? tensor.device() : x.device(),
                      ", the graph on ", indices.device());
  }
}

namespace {

at::Tensor typed_spmm_meta(at::TensorList in_edges, at::TensorList, const at::Tensor& x,
                           const at::Tensor& weight, const at::Tensor& types,
                           const Factor& factor) {
  check_typed({kTypedSpmm, in_edges, x, weight, {}, types, factor.value_or(at::Tensor())});
  return at::empty_symint({in_edges[0].sym_size(0) - 1, x.sym_size(1), weight.sym_size(3)},
                          x.options());
}

at::Tensor typed_sddmm_meta(at::TensorList in_edges, at::TensorList, const at::Tensor& x,
                            const at::Tensor& weight, const at::Tensor& y,
                            const at::Tensor& types) {
  check_typed({kTypedSddmm, in_edges, x, weight, y, types, {}});
  return at::empty_symint({types.sym_size(0), x.sym_size(1)}, x.options());
}

at::Tensor typed_outer_meta(at::TensorList in_edges, at::TensorList, const at::Tensor& x,
                            const at::Tensor& y, const at::Tensor& types, const Factor& factor,
                            c10::SymInt num_types) {
  check_typed({kTypedOuter, in_edges, x, {}, y, types, factor.value_or(at::Tensor())});
  return at::empty_symint({num_types, x.sym_size(1), x.sym_size(2), y.sym_size(2)}, x.options());
}

}  // namespace

at::Tensor call_typed_spmm(at::TensorList in_edges, at::TensorList out_edges, const at::Tensor& x,
                           const at::Tensor& weight, const at::Tensor& types,
                           const Factor& factor) {
  static const auto op = operator_of<decltype(typed_spmm_meta)>(kTypedSpmm);
  return op.call(in_edges, out_edges, x, weight, types, factor);
}

at::Tensor call_typed_sddmm(at::TensorList in_edges, at::TensorList out_edges, const at::Tensor& x,
                            const at::Tensor& weight, const at::Tensor& y,
                            const at::Tensor& types) {
  static const auto op = operator_of<decltype(typed_sddmm_meta)>(kTypedSddmm);
  return op.call(in_edges, out_edges, x, weight, y, types);
}

at::Tensor call_typed_outer(at::TensorList in_edges, at::TensorList out_edges, const at::Tensor& x,
                            const at::Tensor& y, const at::Tensor& types, const Factor& factor,
                            c10::SymInt num_types) {
  static const auto op = operator_of<decltype(typed_outer_meta)>(kTypedOuter);
  return op.call(in_edges, out_edges, x, y, types, factor, num_types);
}

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "typed_spmm(Tensor[] in_edges, Tensor[] out_edges, Tensor x, Tensor weight, Tensor types, "
      "Tensor? factor=None) -> Tensor");
  m.def(
      "typed_sddmm(Tensor[] in_edges, Tensor[] out_edges, Tensor x, Tensor weight, Tensor y, "
      "Tensor types) -> Tensor");
  m.def(
      "typed_outer(Tensor[] in_edges, Tensor[] out_edges, Tensor x, Tensor y, Tensor types, "
      "Tensor? factor, SymInt num_types) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("typed_spmm", typed_spmm_meta);
  m.impl("typed_sddmm", typed_sddmm_meta);
  m.impl("typed_outer", typed_outer_meta);
}

}  // namespace smex::kernels
