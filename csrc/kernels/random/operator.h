// What the files that register these operators share.
#pragma once

#include <ATen/core/Tensor.h>

#include <bit>
#include <cmath>
#include <optional>

#include "kernels/random/draw.h"

namespace smex::kernels {

using OptionalDtype = std::optional<at::ScalarType>;

// Check the arguments and make the result, not initialised.
at::Tensor dropout_mask_meta(const at::Tensor& like, double p, int64_t seed, int64_t stream,
                             at::IntArrayRef offset, at::IntArrayRef global_shape,
                             OptionalDtype dtype);
at::Tensor uniform_meta(const at::Tensor& like, int64_t seed, int64_t stream,
                        at::IntArrayRef offset, at::IntArrayRef global_shape, OptionalDtype dtype);

template <typename scalar_t, typename Bits>
DropoutDraw<Bits> dropout_draw(double p, const PhiloxTensor& words) {
  const double kept = p < 1 ? 1 / (1 - p) : 0;
  return {.random = words,
          .threshold = static_cast<uint64_t>(std::llround(std::ldexp(p, 32))),
          .kept = std::bit_cast<Bits>(static_cast<scalar_t>(kept))};
}

/// The operators on a device: `Fill()(box, draw, out)` writes what is drawn for a box to a tensor.
template <typename Fill>
struct RandomOn {
  static at::Tensor dropout_mask(const at::Tensor& like, double p, int64_t seed, int64_t stream,
                                 at::IntArrayRef offset, at::IntArrayRef global_shape,
                                 OptionalDtype dtype) {
    const at::Tensor out = dropout_mask_meta(like, p, seed, stream, offset, global_shape, dtype);
    const GlobalBox box = box_of(out, offset, global_shape);
    switch (out.scalar_type()) {
      case at::kDouble:
        Fill()(box, dropout_draw<double, uint64_t>(p, words(seed, stream)), out);
        break;
      case at::kHalf:
        Fill()(box, dropout_draw<at::Half, uint16_t>(p, words(seed, stream)), out);
        break;
      case at::kBFloat16:
        Fill()(box, dropout_draw<at::BFloat16, uint16_t>(p, words(seed, stream)), out);
        break;
      default:
        Fill()(box, dropout_draw<float, uint32_t>(p, words(seed, stream)), out);
    }
    return out;
  }

  static at::Tensor uniform(const at::Tensor& like, int64_t seed, int64_t stream,
                            at::IntArrayRef offset, at::IntArrayRef global_shape,
                            OptionalDtype dtype) {
    const at::Tensor out = uniform_meta(like, seed, stream, offset, global_shape, dtype);
    const GlobalBox box = box_of(out, offset, global_shape);
    if (out.scalar_type() == at::kDouble) {
      Fill()(box, UniformDraw<double>{words(seed, stream)}, out);
    } else {
      Fill()(box, UniformDraw<float>{words(seed, stream)}, out);
    }
    return out;
  }

 private:
  static PhiloxTensor words(int64_t seed, int64_t stream) {
    return {static_cast<uint64_t>(seed), static_cast<uint64_t>(stream)};
  }

  /// `out` begins at `offset` in a tensor of shape `global_shape`.
  static GlobalBox box_of(const at::Tensor& out, at::IntArrayRef offset,
                          at::IntArrayRef global_shape) {
    return GlobalBox::make(static_cast<int>(out.dim()), out.sizes().data(), offset.data(),
                           global_shape.data());
  }
};

}  // namespace smex::kernels
