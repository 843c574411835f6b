#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <type_traits>

#include "kernels/tree_lstm/operator.h"

namespace smex::kernels {
namespace {

// Elements that are worth a thread; each takes several exponentials.
constexpr int64_t kGrainSize = 4096;

struct CpuKernel {
  static bool takes(at::ScalarType type, int64_t /*children*/) {
    return type == at::kFloat || type == at::kDouble;
  }

  template <typename T>
  void operator()(const CellForward<T>& task, int64_t rows, const at::Tensor&) const {
    if constexpr (std::is_floating_point_v<T>) run(SMEX_PICK(cell_forward<T>), task, rows);
  }
  template <typename T>
  void operator()(const CellBackward<T>& task, int64_t rows, const at::Tensor&) const {
    if constexpr (std::is_floating_point_v<T>) run(SMEX_PICK(cell_backward<T>), task, rows);
  }

 private:
  template <typename Function, typename Task>
  static void run(Function f, const Task& task, int64_t rows) {
    const int64_t grain = std::max<int64_t>(1, kGrainSize / std::max<int64_t>(1, task.width));
    at::parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) { f(task, begin, end); });
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) { TreeLstmBy<CpuKernel>::register_all(m); }

}  // namespace smex::kernels
