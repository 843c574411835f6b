#include <torch/library.h>

#include "kernels/edge_softmax/operator.h"
#include "kernels/message/autocast.h"

namespace smex::kernels {
namespace {

at::Tensor edge_softmax_widened(at::TensorList edges, const at::Tensor& score) {
  const BelowAutocast guard;
  return call_edge_softmax(edges, at::autocast::cached_cast(at::kFloat, score, device_of(edges)));
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, AutocastCPU, m) { m.impl("edge_softmax", edge_softmax_widened); }
TORCH_LIBRARY_IMPL(smex, AutocastCUDA, m) { m.impl("edge_softmax", edge_softmax_widened); }

}  // namespace smex::kernels
