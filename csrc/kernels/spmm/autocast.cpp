#include <torch/library.h>

#include "kernels/message/autocast.h"
#include "kernels/message/gradients.h"
#include "kernels/spmm/operator.h"

namespace smex::kernels {
namespace {

at::Tensor spmm_lowered(at::TensorList in_edges, at::TensorList out_edges, std::string_view message,
                        std::string_view reduce, at::TensorList operands) {
  const BelowAutocast guard;
  return call_spmm(in_edges, out_edges, message, reduce, lower(operands, device_of(in_edges)));
}

std::tuple<at::Tensor, at::Tensor> extremum_lowered(at::TensorList in_edges,
                                                    at::TensorList out_edges,
                                                    std::string_view message,
                                                    std::string_view reduce,
                                                    at::TensorList operands, bool zero_empty,
                                                    bool need_winner, at::IntArrayRef offset) {
  const BelowAutocast guard;
  return call_extremum(in_edges, out_edges, message, reduce, lower(operands, device_of(in_edges)),
                       zero_empty, need_winner, offset);
}

void register_all(torch::Library& m) {
  m.impl("spmm", spmm_lowered);
  m.impl("spmm_extremum", extremum_lowered);
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, AutocastCPU, m) { register_all(m); }
TORCH_LIBRARY_IMPL(smex, AutocastCUDA, m) { register_all(m); }

}  // namespace smex::kernels
