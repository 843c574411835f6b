#include <ATen/ops/argsort.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "kernels/add_rows/add_rows.h"
#include "kernels/add_rows/operator.h"
#include "kernels/message/dispatch.h"

namespace smex::kernels {
namespace {

void add_rows_on_cuda(at::Tensor& to, const at::Tensor& index, const at::Tensor& rows,
                      int64_t absent, const Order& order) {
  check_add_rows(to, index, rows, order);
  const at::ScalarType type = to.scalar_type();
  const bool has_type =
      type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16;
  const auto both = has_type ? matrices(to, rows) : std::nullopt;
  if (!both) return add_rows(to, index, rows, absent, order);
  if (index.numel() == 0 || to.numel() == 0) return;
  const c10::cuda::CUDAGuard guard(to.device());
  const at::Tensor numbers = index.contiguous();
  const at::Tensor sorted =
      order ? order->contiguous() : at::argsort(numbers, /*stable=*/true, 0, /*descending=*/false);
  dispatch_features(kAddRows, type, [&](auto feature) {
    using T = typename decltype(feature)::type;
    AddRows<T> task;
    task.count = numbers.size(0);
    task.num_rows = to.size(0);
    task.width = both->first.size(1);
    task.absent = absent;
    task.index = numbers.const_data_ptr<int64_t>();
    task.order = sorted.const_data_ptr<int64_t>();
    task.rows = data_of<T>(both->second);
    task.rows_stride = both->second.stride(0);
    task.to = mutable_data_of<T>(both->first);
    task.to_stride = both->first.stride(0);
    add_rows_cuda(task, c10::cuda::getCurrentCUDAStream().stream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CUDA, m) { m.impl("add_rows", add_rows_on_cuda); }

}  // namespace smex::kernels
