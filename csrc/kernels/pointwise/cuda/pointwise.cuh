// The kernel of smex::pointwise: a thread for each element, its slots in registers or near.
#pragma once

#include "kernels/message/apply.h"
#include "kernels/message/cuda/device.cuh"
#include "kernels/message/device_program.h"
#include "kernels/pointwise/cuda/pointwise.h"

namespace smex::kernels {

template <typename T>
__global__ void __launch_bounds__(kThreads) pointwise_kernel(DevicePointwise task) {
  using C = accumulate_t<T>;
  C slots[DevicePointwise::kMaxSlots];
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < task.rows * task.width;
       i += step) {
    const int64_t row = StridedIndex::quotient(i, task.width), column = i - row * task.width;
    for (int k = 0; k < task.num_operands; ++k) {
      const DevicePointwise::Operand& from = task.operands[k];
      const int64_t at = row * from.row_stride + column * from.column_stride;
      slots[k] = widen(static_cast<const T*>(from.data)[at]);
    }
    for (int k = 0; k < task.num_steps; ++k) {
      const DevicePointwise::Step& call = task.code[k];
      slots[call.out] = apply<C>(call.op, slots[call.a], slots[call.b], static_cast<C>(call.value));
    }
    for (int k = 0; k < task.num_outs; ++k) {
      const DevicePointwise::Out& to = task.outs[k];
      narrow(slots[to.slot], static_cast<T*>(to.data)[row * to.row_stride + column]);
    }
  }
}

template <typename T>
void pointwise_cuda(const PointwiseTask<T>& task, int64_t rows, int64_t width,
                    CUstream_st* stream) {
  const PointwiseProgram& program = *task.program;
  DevicePointwise device;
  device.rows = rows;
  device.width = width;
  device.num_operands = program.num_operands;
  for (int k = 0; k < program.num_operands; ++k) {
    const PointwiseOperand<T>& from = task.operands[k];
    device.operands[k] = {from.data, from.row_stride, from.column_stride};
  }
  for (const Instruction& call : program.code) {
    // What has fewer arguments is given one that it does not look at.
    device.code[device.num_steps++] = {call.op, static_cast<uint8_t>(call.out),
                                       static_cast<uint8_t>(call.a < 0 ? 0 : call.a),
                                       static_cast<uint8_t>(call.b < 0 ? 0 : call.b), call.value};
  }
  for (const int slot : program.outs) {
    const PointwiseOut<T>& to = task.outs[device.num_outs];
    device.outs[device.num_outs++] = {to.data, to.row_stride, slot};
  }
  launch(pointwise_kernel<T>, blocks_for(rows * width, kThreads), kThreads, stream, device);
}

}  // namespace smex::kernels
