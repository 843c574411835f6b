#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>

#include "kernels/add_rows/operator.h"

namespace smex::kernels {
namespace {

// Elements that are worth a thread, and columns that are: a cache line of a row of floats.
constexpr int64_t kGrainSize = 32768;
constexpr int64_t kColumns = 16;

void add_rows_on_cpu(at::Tensor& to, const at::Tensor& index, const at::Tensor& rows,
                     int64_t absent, const Order& order) {
  check_add_rows(to, index, rows, order);
  const bool has_type = to.scalar_type() == at::kFloat || to.scalar_type() == at::kDouble;
  const auto both = has_type ? matrices(to, rows) : std::nullopt;
  if (!both) return add_rows(to, index, rows, absent, order);
  const at::Tensor numbers = index.contiguous();
  const auto* const place = numbers.const_data_ptr<int64_t>();
  const int64_t count = index.size(0), width = both->first.size(1), num_rows = to.size(0);
  for (int64_t i = 0; i < count; ++i) {
    TORCH_CHECK_INDEX(place[i] >= 0 && place[i] < num_rows, kAddRows,
                      ": expected numbers from 0 to ", num_rows - 1, ", found ", place[i]);
  }
  // Threads share the columns: rows that occur twice are added in order.
  const int64_t grain = std::max(kColumns, kGrainSize / std::max<int64_t>(1, count));
  AT_DISPATCH_FLOATING_TYPES(to.scalar_type(), kAddRows, [&] {
    auto* const data = both->first.mutable_data_ptr<scalar_t>();
    const auto* const from = both->second.const_data_ptr<scalar_t>();
    const int64_t stride = both->first.stride(0), from_stride = both->second.stride(0);
    at::parallel_for(0, width, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < count; ++i) {
        if (place[i] == absent) continue;
        scalar_t* const row = data + place[i] * stride;
        const scalar_t* const added = from + i * from_stride;
        for (int64_t j = begin; j < end; ++j) row[j] += added[j];
      }
    });
  });
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) { m.impl("add_rows", add_rows_on_cpu); }

}  // namespace smex::kernels
