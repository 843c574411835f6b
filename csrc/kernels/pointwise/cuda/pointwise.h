#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/pointwise/program.h"

struct CUstream_st;

namespace smex::kernels {

/// Where a result or an operand lies.
struct PointwiseTensor {
  static constexpr int kMaxDims = 4;

  void* data = nullptr;
  int64_t strides[kMaxDims] = {};  ///< in elements, of the innermost dimension first; 0 repeats
};

/// A program with its tensors in one flat piece of memory: the parameter of a CUDA kernel.
struct DevicePointwise {
  static constexpr int kMaxDims = PointwiseTensor::kMaxDims;
  static constexpr int kMaxOperands = 32;  // bits of `bool_operands`
  static constexpr int kMaxInstructions = 96;
  static constexpr int kMaxSlots = 32;
  static constexpr int kMaxOuts = 12;

  static constexpr uint8_t kNumber = 255;  ///< instead of a slot: the step's value

  struct Step {
    MessageOp op = MessageOp::kConstant;
    uint8_t out = 0, a = 0, b = 0;
    double value = 0;
  };
  struct Out {
    PointwiseTensor tensor;
    uint8_t slot = 0;
    bool is_bool = false;
  };

  int64_t count = 1;
  int num_dims = 0;
  int64_t sizes[kMaxDims] = {};  ///< the innermost first
  int num_operands = 0, num_steps = 0, num_outs = 0;
  uint32_t bool_operands = 0;  ///< a bit for each operand that is bool
  PointwiseTensor operands[kMaxOperands];
  Step code[kMaxInstructions];
  Out outs[kMaxOuts];
};

// Kernels have 4 KiB for all their parameters.
static_assert(sizeof(DevicePointwise) <= 3840);

/// Whether the kernel takes so long a program.
inline bool fits_device(const PointwiseProgram& program) {
  return program.num_operands <= DevicePointwise::kMaxOperands &&
         program.num_slots <= DevicePointwise::kMaxSlots &&
         program.code.size() <= DevicePointwise::kMaxInstructions &&
         program.outs.size() <= DevicePointwise::kMaxOuts;
}

/// Runs a program on tensors of so many numbers along each dimension, at most kMaxDims, the
/// innermost first. `tensors` are the results, then the operands, in device memory; those of
/// `bools` are bool. Runs on `stream`, does not synchronise, and leaves launch errors to the
/// caller. Numbers pass from call to call in accumulate_t<T>.
template <typename T>
void pointwise_cuda(const PointwiseProgram& program, const std::vector<bool>& bools,
                    const int64_t* sizes, size_t num_dims, const PointwiseTensor* tensors,
                    CUstream_st* stream);

}  // namespace smex::kernels
