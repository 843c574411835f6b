#include <torch/library.h>

#include "kernels/message/autocast.h"
#include "kernels/message/gradients.h"

namespace smex::kernels {
namespace {

at::Tensor sddmm_lowered(at::TensorList in_edges, at::TensorList out_edges,
                         std::string_view message, at::TensorList operands,
                         at::OptionalIntArrayRef reduce_to) {
  const BelowAutocast guard;
  return call_sddmm(in_edges, out_edges, message, lower(operands, device_of(in_edges)), reduce_to);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, AutocastCPU, m) { m.impl("sddmm", sddmm_lowered); }
TORCH_LIBRARY_IMPL(smex, AutocastCUDA, m) { m.impl("sddmm", sddmm_lowered); }

}  // namespace smex::kernels
