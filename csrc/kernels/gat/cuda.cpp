// By the operators that store a weight for every edge. They have gradients themselves, so autograd
// records them and not this one.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "kernels/gat/operator.h"
#include "kernels/message/dispatch.h"
#include "kernels/message/gradients.h"

namespace smex::kernels {
namespace {

// The second result is for the gradient of the one call, which nobody asks for here.
Two gat_recorded(at::TensorList in_edges, at::TensorList out_edges, const at::Tensor& left,
                 const at::Tensor& right, const at::Tensor& value, double slope) {
  refuse_tangents(kGat, {left, right, value});
  check_gat(in_edges, left, right, value);
  return {gat_by_steps(in_edges, out_edges, left, right, value, slope),
          at::empty({right.size(0), right.size(1)},
                    value.options().dtype(sum_type(value.scalar_type())))};
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, AutogradCUDA, m) { m.impl("gat_attention", gat_recorded); }

}  // namespace smex::kernels
