#include <torch/library.h>

#include "kernels/gat/operator.h"
#include "kernels/message/autocast.h"

namespace smex::kernels {
namespace {

Two gat_lowered(at::TensorList in_edges, at::TensorList out_edges, const at::Tensor& left,
                const at::Tensor& right, const at::Tensor& value, double slope) {
  const BelowAutocast guard;
  const std::vector<at::Tensor> x = lower({left, right, value}, device_of(in_edges));
  return call_gat(in_edges, out_edges, x[0], x[1], x[2], slope);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, AutocastCPU, m) { m.impl("gat_attention", gat_lowered); }
TORCH_LIBRARY_IMPL(smex, AutocastCUDA, m) { m.impl("gat_attention", gat_lowered); }

}  // namespace smex::kernels
