// Random tensors of which each element depends on its place in a global tensor.
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_assert_async.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/safe_numerics.h>
#include <torch/library.h>

#include <bit>
#include <cmath>
#include <string_view>

#include "kernels/random/draw.h"

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

PhiloxTensor words(int64_t seed, int64_t stream) {
  return {static_cast<uint64_t>(seed), static_cast<uint64_t>(stream)};
}

/// Fills `out`, which begins at `offset` in a tensor of shape `global_shape`.
template <typename Draw>
void fill(const at::Tensor& out, at::IntArrayRef offset, at::IntArrayRef global_shape,
          const Draw& draw) {
  const GlobalBox box = GlobalBox::make(static_cast<int>(out.dim()), out.sizes().data(),
                                        offset.data(), global_shape.data());
  auto* const data = static_cast<typename Draw::Value*>(out.mutable_data_ptr());
#ifdef SMEX_WITH_CUDA
  if (out.is_cuda()) {
    const c10::cuda::CUDAGuard guard(out.device());
    draw_cuda(box, draw, data, c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return;
  }
#endif
  at::parallel_for(0, box.numel, kGrainSize,
                   [&](int64_t begin, int64_t end) { draw_cpu(box, draw, begin, end, data); });
}

// ---- dropout_mask ----

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

template <typename scalar_t, typename Bits>
DropoutDraw<Bits> dropout_draw(double p, int64_t seed, int64_t stream) {
  const double kept = p < 1 ? 1 / (1 - p) : 0;
  return {.random = words(seed, stream),
          .threshold = static_cast<uint64_t>(std::llround(std::ldexp(p, 32))),
          .kept = std::bit_cast<Bits>(static_cast<scalar_t>(kept))};
}

at::Tensor dropout_mask(const at::Tensor& like, double p, int64_t seed, int64_t stream,
                        at::IntArrayRef offset, at::IntArrayRef global_shape, OptionalDtype dtype) {
  const at::Tensor out = dropout_mask_meta(like, p, seed, stream, offset, global_shape, dtype);
  const auto with = [&]<typename scalar_t, typename Bits>(scalar_t, Bits) {
    fill(out, offset, global_shape, dropout_draw<scalar_t, Bits>(p, seed, stream));
  };
  switch (out.scalar_type()) {
    case at::kDouble:
      with(double{}, uint64_t{});
      break;
    case at::kHalf:
      with(at::Half{}, uint16_t{});
      break;
    case at::kBFloat16:
      with(at::BFloat16{}, uint16_t{});
      break;
    default:
      with(float{}, uint32_t{});
  }
  return out;
}

// What is drawn depends on the shape of `like`, not on its values: it never requires a gradient.
at::Tensor dropout_mask_autograd(const at::Tensor& like, double p, int64_t seed, int64_t stream,
                                 at::IntArrayRef offset, at::IntArrayRef global_shape,
                                 OptionalDtype dtype) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("smex::dropout_mask", "")
                             .typed<decltype(dropout_mask_autograd)>();
  const at::AutoDispatchBelowADInplaceOrView below;
  return op.call(like, p, seed, stream, offset, global_shape, dtype);
}

// ---- uniform ----

at::Tensor uniform_meta(const at::Tensor& like, int64_t /*seed*/, int64_t /*stream*/,
                        at::IntArrayRef offset, at::IntArrayRef global_shape, OptionalDtype dtype) {
  const at::ScalarType type = dtype.value_or(like.scalar_type());
  TORCH_CHECK_TYPE(type == at::kFloat || type == at::kDouble,
                   "smex::uniform: dtype must be float32 or float64, found ", type);
  check_box("smex::uniform", like, offset, global_shape);
  return at::empty_symint(like.sym_sizes(), like.options().dtype(type));
}

at::Tensor uniform(const at::Tensor& like, int64_t seed, int64_t stream, at::IntArrayRef offset,
                   at::IntArrayRef global_shape, OptionalDtype dtype) {
  const at::Tensor out = uniform_meta(like, seed, stream, offset, global_shape, dtype);
  if (out.scalar_type() == at::kDouble) {
    fill(out, offset, global_shape, UniformDraw<double>{words(seed, stream)});
  } else {
    fill(out, offset, global_shape, UniformDraw<float>{words(seed, stream)});
  }
  return out;
}

at::Tensor uniform_autograd(const at::Tensor& like, int64_t seed, int64_t stream,
                            at::IntArrayRef offset, at::IntArrayRef global_shape,
                            OptionalDtype dtype) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("smex::uniform", "")
                             .typed<decltype(uniform_autograd)>();
  const at::AutoDispatchBelowADInplaceOrView below;
  return op.call(like, seed, stream, offset, global_shape, dtype);
}

// ---- bounded ----

// Parameters of a distribution as they are; ATen's kernels look at them before they draw.
at::Tensor bounded(const at::Tensor& x, double low, double high, std::string_view otherwise) {
  const at::Tensor is_inside = x.ge(low).logical_and_(x.le(high)).all();
  at::_assert_async(is_inside, otherwise);
  return x.clone();
}

at::Tensor bounded_meta(const at::Tensor& x, double /*low*/, double /*high*/,
                        std::string_view /*otherwise*/) {
  return at::empty_like(x);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "dropout_mask(Tensor like, float p, int seed, int stream, int[] offset, int[] global_shape, "
      "*, ScalarType? dtype=None) -> Tensor");
  m.def(
      "uniform(Tensor like, int seed, int stream, int[] offset, int[] global_shape, *, "
      "ScalarType? dtype=None) -> Tensor");
  m.def("bounded(Tensor x, float low, float high, str otherwise) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) { m.impl("bounded", bounded); }
TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("bounded", bounded_meta);
  m.impl("dropout_mask", dropout_mask_meta);
  m.impl("uniform", uniform_meta);
}
TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("dropout_mask", dropout_mask);
  m.impl("uniform", uniform);
}
TORCH_LIBRARY_IMPL(smex, Autograd, m) {
  m.impl("dropout_mask", dropout_mask_autograd);
  m.impl("uniform", uniform_autograd);
}
#ifdef SMEX_WITH_CUDA
TORCH_LIBRARY_IMPL(smex, CUDA, m) {
  m.impl("dropout_mask", dropout_mask);
  m.impl("uniform", uniform);
}
#endif

}  // namespace smex::kernels
