#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "host_device.h"
#include "kernels/message/program.h"

namespace smex::kernels {

/// A linear function of the coordinates of a row-major index.
struct StridedIndex {
  static constexpr int kMaxDims = 6;

  int num_dims = 0;
  int64_t sizes[kMaxDims] = {};
  int64_t strides[kMaxDims] = {};

  SMEX_HOST_DEVICE int64_t of(int64_t i) const {
    if (num_dims == 1) return i * strides[0];
    int64_t result = 0;
    for (int d = num_dims - 1; d >= 0; --d) {
      const int64_t outer = d == 0 ? 0 : quotient(i, sizes[d]);
      result += (i - outer * sizes[d]) * strides[d];
      i = outer;
    }
    return result;
  }

  /// a / b for numbers that are not negative: on GPUs many times faster in 32 bits.
  static SMEX_HOST_DEVICE int64_t quotient(int64_t a, int64_t b) {
    if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
    return a / b;
  }
};

struct DeviceOperand {
  const void* data = nullptr;
  Target target = Target::kSource;
  int64_t row_size = 1;
  StridedIndex index;  ///< from the elements of the message to those of the operand's row
};

/// `registers[out] = op(registers[a], registers[b])`. A load (kOperand) reads operand `a`, a sum
/// (kSumLast) of register `a` is the program's sum number `b`.
struct DeviceInstruction {
  MessageOp op = MessageOp::kConstant;
  uint8_t out = 0, a = 0, b = 0;
  double value = 0;
};

/// A program in one flat piece of memory, small enough to be a parameter of a CUDA kernel.
///
/// Every thread computes one element at a time; slots have become a few registers. Element
/// `base(o) + rest(r)` for each `r < rest_count` is added up in element `o` of the result.
struct DeviceProgram {
  static constexpr int kMaxOperands = 12;
  static constexpr int kMaxInstructions = 96;
  static constexpr int kMaxRegisters = 16;
  static constexpr int kMaxSums = 8;

  int num_instructions = 0;
  int num_operands = 0;
  int num_sums = 0;
  int result = 0;                  ///< the register of the message
  uint8_t sum_at[kMaxSums] = {};   ///< the instruction that is sum number s
  bool reads_destination = false;  ///< some operand belongs to destinations

  int64_t elements = 1;
  int64_t last = 1;
  int64_t out_elements = 1;
  int64_t pick = 1;
  int64_t rest_count = 1;
  StridedIndex base, rest;

  DeviceOperand operands[kMaxOperands];
  DeviceInstruction code[kMaxInstructions];
};

// Kernels have 4 KiB for all their parameters.
static_assert(sizeof(DeviceProgram) <= 3840);

/// Translates a program for operands of the given feature shapes; nothing where it is too long, or
/// has no elements although its result has some. The operands' `data` is left to the caller.
std::optional<DeviceProgram> to_device(const MessageProgram& program,
                                       const std::vector<FeatureShape>& operands);

/// Where the elements of a row of shape `whole` are in a row of shape `part` that broadcasts to it.
std::optional<StridedIndex> strided_index(const FeatureShape& part, const FeatureShape& whole);

}  // namespace smex::kernels
