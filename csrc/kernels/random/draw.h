#pragma once

#include <cstdint>

#include "host_device.h"
#include "kernels/random/philox.h"

struct CUstream_st;

namespace smex::kernels {

/// A box of a row-major global tensor, with the dimensions that are adjacent in memory merged.
struct GlobalBox {
  static constexpr int kMaxRank = 16;

  int rank = 1;                     ///< at least 1; a scalar is a box of shape (1)
  int64_t sizes[kMaxRank] = {1};    ///< extent of the box
  int64_t strides[kMaxRank] = {1};  ///< strides of the global tensor, in elements; the last is 1
  int64_t origin = 0;               ///< global index of the box's first element
  int64_t numel = 1;                ///< elements in the box

  /// The box at `offset`, of shape `sizes`, in a tensor of shape `global_shape`; all of length
  /// `rank` <= kMaxRank. The caller has checked that it lies inside.
  static GlobalBox make(int rank, const int64_t* sizes, const int64_t* offset,
                        const int64_t* global_shape);

  /// Row-major index in the global tensor of element `local` of the box.
  SMEX_HOST_DEVICE int64_t global_index(int64_t local) const {
    int64_t index = origin;
    for (int d = rank - 1; d > 0; --d) {
      const int64_t outer = local / sizes[d];
      index += (local - outer * sizes[d]) * strides[d];
      local = outer;
    }
    return index + local * strides[0];
  }
};

// What is made of an element's random bits. A draw says how many elements share a Philox block
// (`kPerBlock`), and gives the value of each: `value(block, lane)`.

/// A dropout mask. `Bits` is an unsigned integer of the dtype's width: a mask has two values, so
/// kernels need no arithmetic on halves.
template <typename Bits>
struct DropoutDraw {
  using Value = Bits;
  static constexpr int kPerBlock = 4;

  PhiloxTensor random;
  uint64_t threshold = 0;  ///< round(p * 2^32): a word below it drops its element
  Bits kept = 0;           ///< bit pattern of 1 / (1 - p)

  SMEX_HOST_DEVICE Bits value(const PhiloxBlock& block, int lane) const {
    return word_of(block, lane) >= threshold ? kept : Bits(0);
  }
};

/// A number of [0, 1): 24 random bits as a float, or 53 as a double.
template <typename Scalar>
struct UniformDraw {
  using Value = Scalar;
  static constexpr int kPerBlock = sizeof(Scalar) == 8 ? 2 : 4;

  PhiloxTensor random;

  SMEX_HOST_DEVICE Scalar value(const PhiloxBlock& block, int lane) const {
    if constexpr (kPerBlock == 2) {
      const uint64_t high = word_of(block, 2 * lane), low = word_of(block, 2 * lane + 1);
      return static_cast<Scalar>((high << 32 | low) >> 11) * Scalar(0x1p-53);
    } else {
      return static_cast<Scalar>(word_of(block, lane) >> 8) * Scalar(0x1p-24);
    }
  }
};

/// Writes elements [begin, end) of what is drawn for the box to `out[begin .. end)`. Deterministic;
/// any partition of [0, box.numel) into ranges gives the same numbers.
template <typename Draw>
void draw_cpu(const GlobalBox& box, const Draw& draw, int64_t begin, int64_t end,
              typename Draw::Value* out);

/// Writes all of it to device memory `out` on `stream`; does not synchronise. Equal to the CPU's
/// bit by bit. The caller checks for launch errors.
template <typename Draw>
void draw_cuda(const GlobalBox& box, const Draw& draw, typename Draw::Value* out,
               CUstream_st* stream);

#define SMEX_FOR_EACH_DRAW(INSTANTIATE) \
  INSTANTIATE(DropoutDraw<uint16_t>)    \
  INSTANTIATE(DropoutDraw<uint32_t>)    \
  INSTANTIATE(DropoutDraw<uint64_t>)    \
  INSTANTIATE(UniformDraw<float>)       \
  INSTANTIATE(UniformDraw<double>)

}  // namespace smex::kernels
