// The kernel of smex::pointwise: a thread for each element, its slots in registers or near.
#pragma once

#include <algorithm>

#include "kernels/message/apply.h"
#include "kernels/message/cuda/device.cuh"
#include "kernels/message/device_program.h"
#include "kernels/pointwise/cuda/pointwise.h"

namespace smex::kernels {

template <typename T>
__global__ void __launch_bounds__(kThreads) pointwise_kernel(DevicePointwise task) {
  using C = accumulate_t<T>;
  C slots[DevicePointwise::kMaxSlots];
  int64_t place[DevicePointwise::kMaxDims] = {};
  const auto element = [&](const PointwiseTensor& tensor) {
    int64_t at = 0;
    for (int d = 0; d < task.num_dims; ++d) at += place[d] * tensor.strides[d];
    return at;
  };
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < task.count; i += step) {
    int64_t rest = i;
    for (int d = 0; d < task.num_dims; ++d) {
      const int64_t outer =
          d + 1 < task.num_dims ? StridedIndex::quotient(rest, task.sizes[d]) : int64_t{0};
      place[d] = rest - outer * task.sizes[d];
      rest = outer;
    }
    for (int k = 0; k < task.num_operands; ++k) {
      const PointwiseTensor& operand = task.operands[k];
      const int64_t at = element(operand);
      const bool is_bool = task.bool_operands >> k & 1;
      slots[k] = is_bool ? static_cast<C>(static_cast<const bool*>(operand.data)[at])
                         : widen(static_cast<const T*>(operand.data)[at]);
    }
    for (int k = 0; k < task.num_steps; ++k) {
      const DevicePointwise::Step& call = task.code[k];
      const C value = static_cast<C>(call.value);
      const C a = call.a == DevicePointwise::kNumber ? value : slots[call.a];
      const C b = call.b == DevicePointwise::kNumber ? value : slots[call.b];
      slots[call.out] = apply<C>(call.op, a, b, value);
    }
    for (int k = 0; k < task.num_outs; ++k) {
      const DevicePointwise::Out& out = task.outs[k];
      const int64_t at = element(out.tensor);
      if (out.is_bool) {
        static_cast<bool*>(out.tensor.data)[at] = slots[out.slot] != C(0);
      } else {
        narrow(slots[out.slot], static_cast<T*>(out.tensor.data)[at]);
      }
    }
  }
}

template <typename T>
void pointwise_cuda(const PointwiseProgram& program, const std::vector<bool>& bools,
                    const int64_t* sizes, size_t num_dims, const PointwiseTensor* tensors,
                    CUstream_st* stream) {
  DevicePointwise device;
  device.num_dims = static_cast<int>(num_dims);
  for (size_t d = 0; d < num_dims; ++d) {
    device.sizes[d] = sizes[d];
    device.count *= sizes[d];
  }
  for (const int slot : program.outs) {
    const int k = device.num_outs++;
    device.outs[k] = {*tensors++, static_cast<uint8_t>(slot), bools[k]};
  }
  device.num_operands = program.num_operands;
  std::copy_n(tensors, program.num_operands, device.operands);
  for (int k = 0; k < program.num_operands; ++k)
    device.bool_operands |= uint32_t{bools[device.num_outs + k]} << k;
  for (const Instruction& call : program.code) {
    const auto argument = [](int slot) {
      return slot < 0 ? DevicePointwise::kNumber : static_cast<uint8_t>(slot);
    };
    device.code[device.num_steps++] = {call.op, static_cast<uint8_t>(call.out), argument(call.a),
                                       argument(call.b), call.value};
  }
  launch(pointwise_kernel<T>, blocks_for(device.count, kThreads), kThreads, stream, device);
}

}  // namespace smex::kernels
