// Random tensors of which each element depends on its place in a global tensor.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/safe_numerics.h>
#include <torch/library.h>

#include <string_view>

#include "kernels/random/operator.h"

namespace smex::kernels {
namespace {

void check_box(const char* op, const at::Tensor& like, at::IntArrayRef offset,
               at::IntArrayRef global_shape) {
  const int64_t rank = like.dim();
  TORCH_CHECK_VALUE(rank <= GlobalBox::kMaxRank, op, ": at most ", GlobalBox::kMaxRank,
                    " dimensions, found ", rank);
  TORCH_CHECK_VALUE(std::ssize(offset) == rank && std::ssize(global_shape) == rank, op,
                    ": like has ", rank, " dimensions, offset ", offset.size(),
                    " and global_shape ", global_shape.size());
  uint64_t global_numel = 1;
  bool overflow = false;
  for (int64_t d = 0; d < rank; ++d) {
    TORCH_CHECK_VALUE(offset[d] >= 0 && offset[d] + like.sym_size(d) <= global_shape[d], op,
                      ": dimension ", d, ": offset ", offset[d], " + size ", like.sym_size(d),
                      " must lie within global_shape ", global_shape[d]);
    overflow |=
        c10::mul_overflows(global_numel, static_cast<uint64_t>(global_shape[d]), &global_numel);
  }
  TORCH_CHECK_VALUE(!overflow && global_numel <= static_cast<uint64_t>(INT64_MAX), op,
                    ": global_shape ", global_shape, " has over 2^63 elements");
}

at::Tensor bounded_meta(const at::Tensor& x, double /*low*/, double /*high*/,
                        std::string_view /*otherwise*/) {
  return at::empty_like(x);
}

}  // namespace

at::Tensor dropout_mask_meta(const at::Tensor& like, double p, int64_t /*seed*/, int64_t /*stream*/,
                             at::IntArrayRef offset, at::IntArrayRef global_shape,
                             OptionalDtype dtype) {
  const at::ScalarType type = dtype.value_or(like.scalar_type());
  TORCH_CHECK_TYPE(
      type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16,
      "smex::dropout_mask: dtype must be float32, float64, float16 or bfloat16, found ", type);
  TORCH_CHECK_VALUE(p >= 0 && p <= 1, "smex::dropout_mask: p must be in [0, 1], found ", p);
  check_box("smex::dropout_mask", like, offset, global_shape);
  return at::empty_symint(like.sym_sizes(), like.options().dtype(type));
}

at::Tensor uniform_meta(const at::Tensor& like, int64_t /*seed*/, int64_t /*stream*/,
                        at::IntArrayRef offset, at::IntArrayRef global_shape, OptionalDtype dtype) {
  const at::ScalarType type = dtype.value_or(like.scalar_type());
  TORCH_CHECK_TYPE(type == at::kFloat || type == at::kDouble,
                   "smex::uniform: dtype must be float32 or float64, found ", type);
  check_box("smex::uniform", like, offset, global_shape);
  return at::empty_symint(like.sym_sizes(), like.options().dtype(type));
}

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "dropout_mask(Tensor like, float p, int seed, int stream, int[] offset, int[] global_shape, "
      "*, ScalarType? dtype=None) -> Tensor");
  m.def(
      "uniform(Tensor like, int seed, int stream, int[] offset, int[] global_shape, *, "
      "ScalarType? dtype=None) -> Tensor");
  m.def("bounded(Tensor x, float low, float high, str otherwise) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("bounded", bounded_meta);
  m.impl("dropout_mask", dropout_mask_meta);
  m.impl("uniform", uniform_meta);
}

}  // namespace smex::kernels
