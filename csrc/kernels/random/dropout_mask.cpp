#include "kernels/random/dropout_mask.h"

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <c10/util/safe_numerics.h>
#include <torch/library.h>

#include <bit>
#include <cmath>

#ifdef SMEX_WITH_CUDA
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace smex::kernels {
namespace {

// Elements that are worth a thread: torch's own grain for element-wise kernels.
constexpr int64_t kGrainSize = 32768;

using OptionalDtype = std::optional<at::ScalarType>;

at::ScalarType check_dtype(const at::Tensor& like, OptionalDtype dtype) {
  const at::ScalarType result = dtype.value_or(like.scalar_type());
  TORCH_CHECK_TYPE(
      result == at::kFloat || result == at::kDouble || result == at::kHalf ||
          result == at::kBFloat16,
      "smex::dropout_mask: dtype must be float32, float64, float16 or bfloat16, found ", result);
  return result;
}

void check_box(const at::Tensor& like, double p, at::IntArrayRef offset,
               at::IntArrayRef global_shape) {
  TORCH_CHECK_VALUE(p >= 0 && p <= 1, "smex::dropout_mask: p must be in [0, 1], found ", p);
  const int64_t rank = like.dim();
  TORCH_CHECK_VALUE(rank <= GlobalBox::kMaxRank, "smex::dropout_mask: at most ",
                    GlobalBox::kMaxRank, " dimensions, found ", rank);
  TORCH_CHECK_VALUE(std::ssize(offset) == rank && std::ssize(global_shape) == rank,
                    "smex::dropout_mask: like has ", rank, " dimensions, offset ", offset.size(),
                    " and global_shape ", global_shape.size());
  uint64_t global_numel = 1;
  bool overflow = false;
  for (int64_t d = 0; d < rank; ++d) {
    TORCH_CHECK_VALUE(offset[d] >= 0 && offset[d] + like.sym_size(d) <= global_shape[d],
                      "smex::dropout_mask: dimension ", d, ": offset ", offset[d], " + size ",
                      like.sym_size(d), " must lie within global_shape ", global_shape[d]);
    overflow |=
        c10::mul_overflows(global_numel, static_cast<uint64_t>(global_shape[d]), &global_numel);
  }
  TORCH_CHECK_VALUE(!overflow && global_numel <= static_cast<uint64_t>(INT64_MAX),
                    "smex::dropout_mask: global_shape ", global_shape, " has over 2^63 elements");
}

template <typename scalar_t, typename Bits>
DropoutDraw<Bits> make_draw(double p, int64_t seed, int64_t stream) {
  const double kept = p < 1 ? 1 / (1 - p) : 0;
  return {.random = {static_cast<uint64_t>(seed), static_cast<uint64_t>(stream)},
          .threshold = static_cast<uint64_t>(std::llround(std::ldexp(p, 32))),
          .kept = std::bit_cast<Bits>(static_cast<scalar_t>(kept))};
}

// Calls `run(draw, out)` with the draw and the data pointer of `out` in its dtype's bits.
template <typename Run>
void dispatch(const at::Tensor& out, double p, int64_t seed, int64_t stream, const Run& run) {
  const auto with = [&]<typename scalar_t, typename Bits>(scalar_t, Bits) {
    run(make_draw<scalar_t, Bits>(p, seed, stream), static_cast<Bits*>(out.mutable_data_ptr()));
  };
  switch (out.scalar_type()) {
    case at::kDouble:
      return with(double{}, uint64_t{});
    case at::kHalf:
      return with(at::Half{}, uint16_t{});
    case at::kBFloat16:
      return with(at::BFloat16{}, uint16_t{});
    default:
      return with(float{}, uint32_t{});
  }
}

at::Tensor dropout_mask_meta(const at::Tensor& like, double p, int64_t /*seed*/, int64_t /*stream*/,
                             at::IntArrayRef offset, at::IntArrayRef global_shape,
                             OptionalDtype dtype) {
  const at::ScalarType result = check_dtype(like, dtype);
  check_box(like, p, offset, global_shape);
  return at::empty_symint(like.sym_sizes(), like.options().dtype(result));
}

GlobalBox make_box(const at::Tensor& like, at::IntArrayRef offset, at::IntArrayRef global_shape) {
  return GlobalBox::make(static_cast<int>(like.dim()), like.sizes().data(), offset.data(),
                         global_shape.data());
}

at::Tensor dropout_mask_on_cpu(const at::Tensor& like, double p, int64_t seed, int64_t stream,
                               at::IntArrayRef offset, at::IntArrayRef global_shape,
                               OptionalDtype dtype) {
  const at::Tensor out = dropout_mask_meta(like, p, seed, stream, offset, global_shape, dtype);
  const GlobalBox box = make_box(like, offset, global_shape);
  dispatch(out, p, seed, stream, [&](const auto& draw, auto* data) {
    at::parallel_for(0, box.numel, kGrainSize, [&](int64_t begin, int64_t end) {
      dropout_mask_cpu(box, draw, begin, end, data);
    });
  });
  return out;
}

#ifdef SMEX_WITH_CUDA
at::Tensor dropout_mask_on_cuda(const at::Tensor& like, double p, int64_t seed, int64_t stream,
                                at::IntArrayRef offset, at::IntArrayRef global_shape,
                                OptionalDtype dtype) {
  const c10::cuda::CUDAGuard guard(like.device());
  const at::Tensor out = dropout_mask_meta(like, p, seed, stream, offset, global_shape, dtype);
  const GlobalBox box = make_box(like, offset, global_shape);
  dispatch(out, p, seed, stream, [&](const auto& draw, auto* data) {
    dropout_mask_cuda(box, draw, data, c10::cuda::getCurrentCUDAStream().stream());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
#endif

// A mask depends on the shape of `like`, not on its values: it never requires a gradient.
at::Tensor dropout_mask_autograd(const at::Tensor& like, double p, int64_t seed, int64_t stream,
                                 at::IntArrayRef offset, at::IntArrayRef global_shape,
                                 OptionalDtype dtype) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("smex::dropout_mask", "")
                             .typed<decltype(dropout_mask_autograd)>();
  const at::AutoDispatchBelowADInplaceOrView below;
  return op.call(like, p, seed, stream, offset, global_shape, dtype);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "dropout_mask(Tensor like, float p, int seed, int stream, int[] offset, int[] global_shape, "
      "*, ScalarType? dtype=None) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) { m.impl("dropout_mask", dropout_mask_meta); }
TORCH_LIBRARY_IMPL(smex, CPU, m) { m.impl("dropout_mask", dropout_mask_on_cpu); }
TORCH_LIBRARY_IMPL(smex, Autograd, m) { m.impl("dropout_mask", dropout_mask_autograd); }
#ifdef SMEX_WITH_CUDA
TORCH_LIBRARY_IMPL(smex, CUDA, m) { m.impl("dropout_mask", dropout_mask_on_cuda); }
#endif

}  // namespace smex::kernels
