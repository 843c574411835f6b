#include <torch/library.h>

#include "kernels/pointwise/operator.h"

namespace smex::kernels {
namespace {

// Numbers that are worth a thread.
constexpr int64_t kGrainSize = 16384;

struct CpuKernel {
  static bool takes(const PointwiseProgram&, const at::TensorIterator&) { return true; }

  template <typename T>
  static void run(const PointwiseProgram& program, at::TensorIterator& iterator) {
    std::vector<bool> bools;
    for (int i = 0; i < iterator.ntensors(); ++i) bools.push_back(iterator.dtype(i) == at::kBool);
    iterator.for_each(
        [&](char** data, const int64_t* strides, int64_t columns, int64_t rows) {
          SMEX_PICK(run_pointwise<T>)(program, bools, data, strides, columns, rows);
        },
        kGrainSize);
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("pointwise", PointwiseBy<CpuKernel>::call);
  m.impl("pointwise_into", PointwiseBy<CpuKernel>::into);
}

}  // namespace smex::kernels
