// Parts of attention over different keys, made comparable.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <torch/library.h>

#include <limits>

namespace smex::kernels {
namespace {

/// A mean of a part [..., E], times what the part weighs beside all others: the results of all
/// parts add up to the mean of all. A part that weighs nothing counts nothing.
at::Tensor weigh_part(const at::Tensor& part, const at::Tensor& part_logsumexp,
                      const at::Tensor& logsumexp) {
  TORCH_CHECK_VALUE(part_logsumexp.sizes() == logsumexp.sizes() && part.dim() >= logsumexp.dim() &&
                        part.sizes().slice(0, logsumexp.dim()) == logsumexp.sizes(),
                    "smex::weigh_part: expected sums of the first dimensions of the part ",
                    part.sizes(), ", found ", part_logsumexp.sizes(), " and ", logsumexp.sizes());
  at::Tensor weight = (part_logsumexp - logsumexp).exp_();
  weight.masked_fill_(part_logsumexp.eq(-std::numeric_limits<double>::infinity()), 0);
  while (weight.dim() < part.dim()) weight = weight.unsqueeze(-1);
  at::Tensor weighed = at::empty_like(part);
  at::mul_out(weighed, part, weight);
  return weighed;
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) { m.impl("weigh_part", weigh_part); }

}  // namespace smex::kernels
