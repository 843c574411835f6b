// By the operators that store a weight for every edge.
#include <torch/library.h>

#include "kernels/attention/operator.h"
#include "kernels/attention/steps.h"
#include "kernels/message/operands.h"

namespace smex::kernels {
namespace {

at::Tensor attention_on_cuda(at::TensorList in_edges, at::TensorList out_edges,
                             std::string_view score, at::TensorList operands,
                             const at::Tensor& value) {
  check_attention(in_edges, out_edges, message_of(kAttention, std::string(score)), operands, value);
  return attention_by_steps(in_edges, out_edges, score, operands, value);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CUDA, m) { m.impl("attention", attention_on_cuda); }

}  // namespace smex::kernels
