#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <limits>
#include <type_traits>

#include "kernels/pooling/max_pool2d_backward.h"
#include "kernels/pooling/operator.h"

namespace smex::kernels {
namespace {

// Elements that are worth a thread: torch's own grain for element-wise kernels.
constexpr int64_t kGrainSize = 32768;

/// Rows are as short as planes are narrow: vectors of AVX-512 would be mostly their ends.
template <typename T>
auto by_rows_kernel() {
#ifdef SMEX_X86
  return &isa_avx2::max_pool2d_backward_by_rows<T>;
#else
  return &isa_default::max_pool2d_backward_by_rows<T>;
#endif
}

at::Tensor max_pool2d_backward_on_cpu(const at::Tensor& grad, const at::Tensor& x,
                                      at::IntArrayRef kernel_size, at::IntArrayRef stride,
                                      at::IntArrayRef padding, at::IntArrayRef dilation,
                                      bool ceil_mode) {
  const auto number = [](at::IntArrayRef list, int dim) {
    return list[list.size() == 1 ? 0 : dim];
  };
  Pool2d pool;
  at::DimVector pooled(x.sizes());
  const int64_t rank = x.dim();
  bool plain = !ceil_mode && (rank == 3 || rank == 4) && x.numel() > 0;
  for (int dim = 0; dim < 2 && plain; ++dim) {
    pool.kernel[dim] = number(kernel_size, dim);
    pool.stride[dim] = number(stride.empty() ? kernel_size : stride, dim);
    pool.padding[dim] = number(padding, dim);
    pool.dilation[dim] = number(dilation, dim);
    plain = pool.kernel[dim] > 0 && pool.stride[dim] > 0 && pool.dilation[dim] > 0 &&
            pool.padding[dim] >= 0 && 2 * pool.padding[dim] <= pool.kernel[dim];
    if (!plain) break;
    pool.in[dim] = x.size(rank - 2 + dim);
    const int64_t span = (pool.kernel[dim] - 1) * pool.dilation[dim] + 1;
    pool.out[dim] = (pool.in[dim] + 2 * pool.padding[dim] - span) / pool.stride[dim] + 1;
    plain = pool.in[dim] + 2 * pool.padding[dim] >= span;
    pooled[rank - 2 + dim] = pool.out[dim];
  }
  // ATen judges what is odd, and says so.
  if (!plain) {
    return kernels::max_pool2d_backward(grad, x, kernel_size, stride, padding, dilation, ceil_mode);
  }
  check_pooled(grad, pooled);
  TORCH_CHECK_TYPE(grad.scalar_type() == x.scalar_type(),
                   "smex::max_pool2d_backward: expected a gradient of type ", x.scalar_type(),
                   ", found ", grad.scalar_type());
  const at::Tensor dense_grad = grad.contiguous(), dense_x = x.contiguous();
  const at::Tensor result = at::empty_like(dense_x, at::MemoryFormat::Contiguous);
  const int64_t plane = pool.in[0] * pool.in[1];
  // Windows of 2 by 2 have loops of their own; places of a plane are numbers of 32 bits.
  const auto all = [](const int64_t (&numbers)[2], int64_t wanted) {
    return numbers[0] == wanted && numbers[1] == wanted;
  };
  const bool two_by_two = all(pool.kernel, 2) && all(pool.padding, 0) && all(pool.dilation, 1);
  const bool by_rows =
      best_isa() != Isa::kDefault && !two_by_two && plane <= std::numeric_limits<int32_t>::max();
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, x.scalar_type(), "smex::max_pool2d_backward", [&] {
        const scalar_t* const from = dense_grad.const_data_ptr<scalar_t>();
        const scalar_t* const pooled_from = dense_x.const_data_ptr<scalar_t>();
        scalar_t* const to = result.mutable_data_ptr<scalar_t>();
        at::parallel_for(
            0, x.numel() / plane, std::max<int64_t>(1, kGrainSize / plane),
            [&](int64_t begin, int64_t end) {
              if constexpr (std::is_same_v<scalar_t, float> || std::is_same_v<scalar_t, double>) {
                if (by_rows) {
                  by_rows_kernel<scalar_t>()(pool, from, pooled_from, to, begin, end);
                  return;
                }
              }
              max_pool2d_backward_cpu(pool, from, pooled_from, to, begin, end);
            });
      });
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) { m.impl("max_pool2d_backward", max_pool2d_backward_on_cpu); }

}  // namespace smex::kernels
