#pragma once

#include <cstdint>

#include "kernels/host_device.h"
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

/// What decides and what is written for each element of a dropout mask. `Bits` is an unsigned
/// integer of the dtype's width: a mask has two values, so kernels need no arithmetic on halves.
template <typename Bits>
struct DropoutDraw {
  PhiloxTensor random;
  uint64_t threshold = 0;  ///< round(p * 2^32): a word below it drops its element
  Bits kept = 0;           ///< bit pattern of 1 / (1 - p)

  SMEX_HOST_DEVICE Bits value(uint32_t word) const { return word >= threshold ? kept : Bits(0); }
};

/// Writes elements [begin, end) of the box's mask to `out[begin .. end)`. Deterministic; any
/// partition of [0, box.numel) into ranges gives the same mask. Bits: uint16_t, uint32_t, uint64_t.
template <typename Bits>
void dropout_mask_cpu(const GlobalBox& box, const DropoutDraw<Bits>& draw, int64_t begin,
                      int64_t end, Bits* out);

/// Writes the whole mask of the box to device memory `out` on `stream`; does not synchronise.
/// Equal to the CPU's bit by bit. The caller checks for launch errors.
template <typename Bits>
void dropout_mask_cuda(const GlobalBox& box, const DropoutDraw<Bits>& draw, Bits* out,
                       CUstream_st* stream);

}  // namespace smex::kernels
