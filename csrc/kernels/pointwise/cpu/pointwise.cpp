// Compiled once for each instruction set.
#include <algorithm>
#include <memory>

#include "kernels/message/interpreter.h"
#include "kernels/pointwise/program.h"

namespace smex::kernels::SMEX_ISA {
namespace {

// So many numbers of a row at once: with a dozen slots the first-level cache holds them.
constexpr int64_t kBlock = 512;

}  // namespace

template <typename T>
void run_pointwise(const PointwiseTask<T>& task, int64_t begin, int64_t end, int64_t first,
                   int64_t last) {
  const PointwiseProgram& program = *task.program;
  const int64_t block = std::min(kBlock, last - first);
  const auto memory = std::make_unique<T[]>(block * program.num_slots);
  std::vector<const T*> slots(program.num_slots);
  for (int slot = 0; slot < program.num_slots; ++slot) slots[slot] = memory.get() + slot * block;
  const auto own = [&](int slot) { return memory.get() + slot * block; };
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t at = first; at < last; at += block) {
      const int64_t n = std::min(block, last - at);
      for (int i = 0; i < program.num_operands; ++i) {
        const PointwiseOperand<T>& operand = task.operands[i];
        const T* const from = operand.data + row * operand.row_stride;
        if (operand.column_stride != 0) {
          slots[i] = from + at;
        } else if (at == first) {
          std::fill_n(own(i), block, *from);
        }
      }
      for (const Instruction& step : program.code) {
        run_instruction(step, own(step.out), step.a < 0 ? nullptr : slots[step.a],
                        step.b < 0 ? nullptr : slots[step.b], n, int64_t(1));
      }
      // Last, since outs may lie where operands were read.
      for (size_t i = 0; i < program.outs.size(); ++i) {
        const T* const value = slots[program.outs[i]];
        std::copy_n(value, n, task.outs[i].data + row * task.outs[i].row_stride + at);
      }
    }
  }
}

#define SMEX_INSTANTIATE(T) \
  template void run_pointwise<T>(const PointwiseTask<T>&, int64_t, int64_t, int64_t, int64_t);
SMEX_INSTANTIATE(float)
SMEX_INSTANTIATE(double)
#undef SMEX_INSTANTIATE

}  // namespace smex::kernels::SMEX_ISA
