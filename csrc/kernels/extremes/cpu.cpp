#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <algorithm>

#include "kernels/extremes/operator.h"

namespace smex::kernels {
namespace {

constexpr int64_t kGrain = 32768;  ///< elements that are worth a thread

template <typename T>
bool same(T a, T b) {
  return a == b || (a != a && b != b);
}

/// Of x [outer, size, inner] and value [outer, 1, inner].
template <typename T>
void find_first(const T* x, const T* value, int64_t outer, int64_t size, int64_t inner,
                int64_t first, int64_t* found) {
  const int64_t grain = kGrain / std::max<int64_t>(size * inner, 1) + 1;
  at::parallel_for(0, outer, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* const wanted = value + row * inner;
      int64_t* const place = found + row * inner;
      std::fill(place, place + inner, kNowhere);
      int64_t left = inner;
      for (int64_t k = 0; k < size && left > 0; ++k) {
        const T* const line = x + (row * size + k) * inner;
        for (int64_t i = 0; i < inner; ++i) {
          if (place[i] != kNowhere || !same(line[i], wanted[i])) continue;
          place[i] = first + k;
          --left;
        }
      }
    }
  });
}

at::Tensor first_position_cpu(const at::Tensor& x, const at::Tensor& value, int64_t dim,
                              at::IntArrayRef offset) {
  check_first_position(x, value, dim, offset);
  const at::Tensor dense = x.contiguous(), wanted = value.contiguous();
  at::Tensor found = at::empty_like(wanted, wanted.options().dtype(at::kLong));
  const int64_t outer = c10::multiply_integers(x.sizes().slice(0, dim));
  const int64_t inner = c10::multiply_integers(x.sizes().slice(dim + 1));
  AT_DISPATCH_ALL_TYPES_AND3(
      at::kHalf, at::kBFloat16, at::kBool, x.scalar_type(), "smex::first_position", [&] {
        find_first(dense.const_data_ptr<scalar_t>(), wanted.const_data_ptr<scalar_t>(), outer,
                   x.size(dim), inner, first_of(offset), found.mutable_data_ptr<int64_t>());
      });
  return found;
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) { m.impl("first_position", first_position_cpu); }

}  // namespace smex::kernels
