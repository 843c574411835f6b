#include "kernels/attention/steps.h"

#include "kernels/edge_softmax/operator.h"
#include "kernels/message/gradients.h"

namespace smex::kernels {

at::Tensor attention_by_steps(at::TensorList in_edges, at::TensorList out_edges,
                              std::string_view score, at::TensorList operands,
                              const at::Tensor& value) {
  const at::Tensor scores = call_sddmm(in_edges, out_edges, score, operands, std::nullopt);
  at::Tensor weight = call_edge_softmax(in_edges, scores);
  if (weight.dim() == 2) weight = weight.unsqueeze(-1);
  return call_spmm(in_edges, out_edges, "u0 * e1", "sum", {value, weight});
}

}  // namespace smex::kernels
