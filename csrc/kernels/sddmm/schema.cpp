// smex::sddmm: a value for every edge, from the features of its ends and its own.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "kernels/sddmm/operator.h"

namespace smex::kernels {
namespace {

void check_reduce_to(const at::SymDimVector& shape, at::IntArrayRef reduce_to) {
  bool fits = reduce_to.size() <= shape.size();
  for (size_t back = 1; fits && back <= reduce_to.size(); ++back) {
    const int64_t size = reduce_to[reduce_to.size() - back];
    fits = size == 1 || shape[shape.size() - back] == size;
  }
  TORCH_CHECK_VALUE(fits, kSddmm, ": a message of shape ", c10::SymIntArrayRef(shape),
                    " cannot be summed to ", reduce_to);
}

at::Tensor sddmm_meta(at::TensorList in_edges, at::TensorList out_edges, std::string_view message,
                      at::TensorList operands, at::OptionalIntArrayRef reduce_to) {
  const Message parsed = message_of(kSddmm, std::string(message));
  check_operands(kSddmm, parsed, in_edges, out_edges, operands);
  at::SymDimVector shape = symbolic_shape(kSddmm, parsed, operands);
  if (reduce_to.has_value()) {
    check_reduce_to(shape, *reduce_to);
    shape.assign(reduce_to->begin(), reduce_to->end());
  }
  shape.insert(shape.begin(), in_edges[1].sym_size(0));
  return at::empty_symint(shape, operands[0].options());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "sddmm(Tensor[] in_edges, Tensor[] out_edges, str message, Tensor[] operands, "
      "int[]? reduce_to=None) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) { m.impl("sddmm", sddmm_meta); }

}  // namespace smex::kernels
