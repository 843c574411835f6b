#include <ATen/Parallel.h>
#include <torch/library.h>

#include "kernels/random/operator.h"

namespace smex::kernels {
namespace {

// Elements that are worth a thread: torch's own grain for element-wise kernels.
constexpr int64_t kGrainSize = 32768;

struct FillOnCpu {
  template <typename Draw>
  void operator()(const GlobalBox& box, const Draw& draw, const at::Tensor& out) const {
    auto* const data = static_cast<typename Draw::Value*>(out.mutable_data_ptr());
    at::parallel_for(0, box.numel, kGrainSize,
                     [&](int64_t begin, int64_t end) { draw_cpu(box, draw, begin, end, data); });
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("dropout_mask", RandomOn<FillOnCpu>::dropout_mask);
  m.impl("uniform", RandomOn<FillOnCpu>::uniform);
}

}  // namespace smex::kernels
