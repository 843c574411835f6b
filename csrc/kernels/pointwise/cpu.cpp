#include <ATen/Parallel.h>
#include <torch/library.h>

#include <type_traits>

#include "kernels/pointwise/operator.h"

namespace smex::kernels {
namespace {

// Numbers that are worth a thread.
constexpr int64_t kGrainSize = 16384;

/// Whether every row begins behind the one before: all are one row, which threads divide better.
template <typename T>
bool is_one_row(const PointwiseTask<T>& task, int64_t width) {
  const PointwiseProgram& program = *task.program;
  bool result = true;
  for (int i = 0; i < program.num_operands; ++i) {
    const PointwiseOperand<T>& operand = task.operands[i];
    result &= operand.row_stride == width * operand.column_stride;
  }
  for (size_t i = 0; i < program.outs.size(); ++i) result &= task.outs[i].row_stride == width;
  return result;
}

struct CpuKernel {
  static bool takes(const PointwiseProgram&, at::ScalarType type) {
    return type == at::kFloat || type == at::kDouble;
  }

  template <typename T>
  void operator()([[maybe_unused]] const PointwiseTask<T>& task, [[maybe_unused]] int64_t rows,
                  [[maybe_unused]] int64_t width, const at::Tensor&) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (is_one_row(task, width)) {
        at::parallel_for(0, rows * width, kGrainSize, [&](int64_t begin, int64_t end) {
          SMEX_PICK(run_pointwise<T>)(task, 0, 1, begin, end);
        });
        return;
      }
      const int64_t grain = std::max<int64_t>(1, kGrainSize / width);
      at::parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) {
        SMEX_PICK(run_pointwise<T>)(task, begin, end, 0, width);
      });
    }
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("pointwise", PointwiseBy<CpuKernel>::call);
  m.impl("pointwise_into", PointwiseBy<CpuKernel>::into);
}

}  // namespace smex::kernels
