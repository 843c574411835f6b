// smex::segment_mm and segment_outer: groups of rows that follow each other, each with a matrix of
// its own. Either is a derivative of the other, so that both can be differentiated any number of
// times. How many rows a group has is read while they run.
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kernels/message/gradients.h"
#include "kernels/operator_of.h"

namespace smex::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kSegmentMm = "smex::segment_mm";
constexpr const char* kSegmentOuter = "smex::segment_outer";

at::Tensor segment_mm_meta(const at::Tensor& a, const at::Tensor& b, const at::Tensor&) {
  return at::empty_symint({a.sym_size(0), b.sym_size(2)}, a.options());
}

at::Tensor segment_outer_meta(const at::Tensor& a, const at::Tensor& g, const at::Tensor& lengths) {
  return at::empty_symint({lengths.sym_size(0), a.sym_size(1), g.sym_size(1)}, a.options());
}

at::Tensor call_segment_mm(const at::Tensor& a, const at::Tensor& b, const at::Tensor& lengths) {
  static const auto op = operator_of<decltype(segment_mm_meta)>(kSegmentMm);
  return op.call(a, b, lengths);
}

at::Tensor call_segment_outer(const at::Tensor& a, const at::Tensor& g, const at::Tensor& lengths) {
  static const auto op = operator_of<decltype(segment_outer_meta)>(kSegmentOuter);
  return op.call(a, g, lengths);
}

/// Calls `visit` with the number of each group, its first row and how many it has.
template <typename Visit>
void for_each_group(const at::Tensor& lengths, int64_t groups, int64_t rows, const Visit& visit) {
  const at::Tensor own = lengths.to(at::kCPU, at::kLong).contiguous();
  const int64_t* const sizes = own.const_data_ptr<int64_t>();
  int64_t sum = 0;
  for (int64_t group = 0; group < own.numel(); ++group) sum += sizes[group];
  TORCH_CHECK_VALUE(own.numel() == groups && sum == rows,
                    "segment_mm: expected as many lengths as matrices, ", groups,
                    ", whose sum is the number of rows, ", rows, ", found ", own.numel(),
                    " whose sum is ", sum);
  int64_t first = 0;
  for (int64_t group = 0; group < groups; ++group) {
    visit(group, first, sizes[group]);
    first += sizes[group];
  }
}

at::Tensor segment_mm(const at::Tensor& a, const at::Tensor& b, const at::Tensor& lengths) {
  at::Tensor out = segment_mm_meta(a, b, lengths);
  for_each_group(lengths, b.size(0), a.size(0), [&](int64_t group, int64_t first, int64_t size) {
    at::Tensor part = out.narrow(0, first, size);
    at::mm_out(part, a.narrow(0, first, size), b.select(0, group));
  });
  return out;
}

at::Tensor segment_outer(const at::Tensor& a, const at::Tensor& g, const at::Tensor& lengths) {
  at::Tensor out = segment_outer_meta(a, g, lengths);
  for_each_group(lengths, out.size(0), a.size(0), [&](int64_t group, int64_t first, int64_t size) {
    at::Tensor part = out.select(0, group);
    at::mm_out(part, a.narrow(0, first, size).t(), g.narrow(0, first, size));
  });
  return out;
}

class SegmentMmFunction : public torch::autograd::Function<SegmentMmFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& a, const at::Tensor& b,
                            const at::Tensor& lengths) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({a, b, lengths});
    return call_segment_mm(a, b, lengths);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list kept = ctx->get_saved_variables();
    const at::Tensor &a = kept[0], &b = kept[1], &lengths = kept[2];
    variable_list wanted(3);
    if (ctx->needs_input_grad(0)) wanted[0] = call_segment_mm(grads[0], b.transpose(1, 2), lengths);
    if (ctx->needs_input_grad(1)) wanted[1] = call_segment_outer(a, grads[0], lengths);
    return wanted;
  }
};

class SegmentOuterFunction : public torch::autograd::Function<SegmentOuterFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& a, const at::Tensor& g,
                            const at::Tensor& lengths) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({a, g, lengths});
    return call_segment_outer(a, g, lengths);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list kept = ctx->get_saved_variables();
    const at::Tensor &a = kept[0], &g = kept[1], &lengths = kept[2];
    variable_list wanted(3);
    if (ctx->needs_input_grad(0)) wanted[0] = call_segment_mm(g, grads[0].transpose(1, 2), lengths);
    if (ctx->needs_input_grad(1)) wanted[1] = call_segment_mm(a, grads[0], lengths);
    return wanted;
  }
};

at::Tensor segment_mm_autograd(const at::Tensor& a, const at::Tensor& b,
                               const at::Tensor& lengths) {
  refuse_tangents(kSegmentMm, {a, b});
  if (wants_gradient({a, b})) return SegmentMmFunction::apply(a, b, lengths);
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_segment_mm(a, b, lengths);
}

at::Tensor segment_outer_autograd(const at::Tensor& a, const at::Tensor& g,
                                  const at::Tensor& lengths) {
  refuse_tangents(kSegmentOuter, {a, g});
  if (wants_gradient({a, g})) return SegmentOuterFunction::apply(a, g, lengths);
  at::AutoDispatchBelowADInplaceOrView guard;
  return call_segment_outer(a, g, lengths);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def("segment_mm(Tensor a, Tensor b, Tensor lengths) -> Tensor", {at::Tag::pt2_compliant_tag});
  m.def("segment_outer(Tensor a, Tensor g, Tensor lengths) -> Tensor",
        {at::Tag::pt2_compliant_tag});
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("segment_mm", segment_mm_meta);
  m.impl("segment_outer", segment_outer_meta);
}

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) {
  m.impl("segment_mm", segment_mm);
  m.impl("segment_outer", segment_outer);
}

TORCH_LIBRARY_IMPL(smex, Autograd, m) {
  m.impl("segment_mm", segment_mm_autograd);
  m.impl("segment_outer", segment_outer_autograd);
}

}  // namespace smex::kernels
