#include <torch/library.h>

#include "kernels/attention/operator.h"
#include "kernels/message/autocast.h"

namespace smex::kernels {
namespace {

at::Tensor attention_lowered(at::TensorList in_edges, at::TensorList out_edges,
                             std::string_view score, at::TensorList operands,
                             const at::Tensor& value) {
  const BelowAutocast guard;
  const at::DeviceType device = device_of(in_edges);
  return call_attention(in_edges, out_edges, score, lower(operands, device),
                        lower({value}, device)[0]);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, AutocastCPU, m) { m.impl("attention", attention_lowered); }
TORCH_LIBRARY_IMPL(smex, AutocastCUDA, m) { m.impl("attention", attention_lowered); }

}  // namespace smex::kernels
