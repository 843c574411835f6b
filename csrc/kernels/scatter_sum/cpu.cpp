#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>

#include "kernels/scatter_sum/operator.h"

namespace smex::kernels {
namespace {

constexpr int64_t kElementsWorthAThread = 32768;

/// Of x and index [outer, count, inner] and result [outer, size, inner]; a thread has whole rows of
/// the first.
template <typename T>
void add_at_places(const T* x, const int64_t* index, int64_t outer, int64_t count, int64_t size,
                   int64_t inner, int64_t first, T* result) {
  const int64_t grain =
      std::max<int64_t>(1, kElementsWorthAThread / std::max<int64_t>(count * inner, 1));
  at::parallel_for(0, outer, grain, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin * count; line < end * count; ++line) {
      T* const to = result + line / count * size * inner;
      for (int64_t i = 0; i < inner; ++i) {
        const int64_t place = index[line * inner + i] - first;
        if (place >= 0 && place < size) to[place * inner + i] += x[line * inner + i];
      }
    }
  });
}

at::Tensor scatter_sum_cpu(const at::Tensor& x, const at::Tensor& index, int64_t dim,
                           at::IntArrayRef shape, at::IntArrayRef offset) {
  if (!x.is_floating_point()) return scatter_sum(x, index, dim, shape, offset);
  check_scatter_sum(x, index, dim, shape, offset);
  const at::Tensor dense = x.contiguous(), places = index.contiguous();
  at::Tensor result = at::zeros(shape, x.options());
  const int64_t outer = c10::multiply_integers(shape.slice(0, dim));
  const int64_t inner = c10::multiply_integers(shape.slice(dim + 1));
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, x.scalar_type(), "smex::scatter_sum", [&] {
        add_at_places(dense.const_data_ptr<scalar_t>(), places.const_data_ptr<int64_t>(), outer,
                      x.size(dim), shape[dim], inner, begin_of(offset, dim),
                      result.mutable_data_ptr<scalar_t>());
      });
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) { m.impl("scatter_sum", scatter_sum_cpu); }

}  // namespace smex::kernels
