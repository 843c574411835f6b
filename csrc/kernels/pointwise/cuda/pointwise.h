#pragma once

#include <cstdint>

#include "kernels/pointwise/program.h"

struct CUstream_st;

namespace smex::kernels {

/// A program with its tensors in one flat piece of memory: the parameter of a CUDA kernel.
struct DevicePointwise {
  static constexpr int kMaxOperands = 32;
  static constexpr int kMaxInstructions = 96;
  static constexpr int kMaxSlots = 32;
  static constexpr int kMaxOuts = 16;

  struct Operand {
    const void* data = nullptr;
    int64_t row_stride = 0, column_stride = 0;
  };
  struct Step {
    MessageOp op = MessageOp::kConstant;
    uint8_t out = 0, a = 0, b = 0;
    double value = 0;
  };
  struct Out {
    void* data = nullptr;
    int64_t row_stride = 0;
    int slot = 0;
  };

  int64_t rows = 0, width = 0;
  int num_operands = 0, num_steps = 0, num_outs = 0;
  Operand operands[kMaxOperands];
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

/// Runs a program on `rows` rows of `width` in device memory, on `stream`; does not synchronise,
/// and leaves launch errors to the caller. Numbers pass from call to call in accumulate_t<T>.
template <typename T>
void pointwise_cuda(const PointwiseTask<T>& task, int64_t rows, int64_t width, CUstream_st* stream);

}  // namespace smex::kernels
