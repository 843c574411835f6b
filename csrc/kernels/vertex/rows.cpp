// smex::add_rows: the gradients of gathered rows, added to those of the rows they came from.
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/index_add.h>
#include <torch/library.h>

#include <algorithm>

namespace smex::kernels {
namespace {

constexpr const char* kOp = "smex::add_rows";

// Elements that are worth a thread, and columns that are: a cache line of a row of floats.
constexpr int64_t kGrainSize = 32768;
constexpr int64_t kColumns = 16;

void check(const at::Tensor& to, const at::Tensor& index, const at::Tensor& rows) {
  TORCH_CHECK_VALUE(index.dim() == 1 && rows.dim() == to.dim() && to.dim() > 0 &&
                        rows.sym_size(0) == index.sym_size(0) &&
                        rows.sym_sizes().slice(1) == to.sym_sizes().slice(1),
                    kOp, ": expected a row of shape ", to.sym_sizes().slice(1), " for each of ",
                    index.sym_size(0), " numbers, found ", rows.sym_sizes());
  TORCH_CHECK_TYPE(index.scalar_type() == at::kLong && rows.scalar_type() == to.scalar_type(), kOp,
                   ": expected int64 numbers and rows of type ", to.scalar_type(), ", found ",
                   index.scalar_type(), " and ", rows.scalar_type());
}

void add_rows(at::Tensor& to, const at::Tensor& index, const at::Tensor& rows) {
  check(to, index, rows);
  to.index_add_(0, index, rows);
}

void add_rows_on_cpu(at::Tensor& to, const at::Tensor& index, const at::Tensor& rows) {
  check(to, index, rows);
  const bool has_kernel = to.dim() == 2 && to.stride(1) == 1 && rows.stride(1) == 1 &&
                          (to.scalar_type() == at::kFloat || to.scalar_type() == at::kDouble);
  if (!has_kernel) {
    to.index_add_(0, index, rows);
    return;
  }
  const at::Tensor numbers = index.contiguous();
  const auto* const place = numbers.const_data_ptr<int64_t>();
  const int64_t count = index.size(0), width = to.size(1), num_rows = to.size(0);
  for (int64_t i = 0; i < count; ++i) {
    TORCH_CHECK_INDEX(place[i] >= 0 && place[i] < num_rows, kOp, ": expected numbers from 0 to ",
                      num_rows - 1, ", found ", place[i]);
  }
  // Threads share the columns: rows that occur twice are added in order.
  const int64_t grain = std::max(kColumns, kGrainSize / std::max<int64_t>(1, count));
  AT_DISPATCH_FLOATING_TYPES(to.scalar_type(), kOp, [&] {
    auto* const data = to.mutable_data_ptr<scalar_t>();
    const auto* const from = rows.const_data_ptr<scalar_t>();
    const int64_t stride = to.stride(0), from_stride = rows.stride(0);
    at::parallel_for(0, width, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < count; ++i) {
        scalar_t* const row = data + place[i] * stride;
        const scalar_t* const added = from + i * from_stride;
        for (int64_t j = begin; j < end; ++j) row[j] += added[j];
      }
    });
  });
}

void add_rows_meta(at::Tensor& to, const at::Tensor& index, const at::Tensor& rows) {
  check(to, index, rows);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def("add_rows(Tensor(a!) to, Tensor index, Tensor rows) -> ()");
}

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) { m.impl("add_rows", add_rows); }

TORCH_LIBRARY_IMPL(smex, CPU, m) { m.impl("add_rows", add_rows_on_cpu); }

TORCH_LIBRARY_IMPL(smex, Meta, m) { m.impl("add_rows", add_rows_meta); }

}  // namespace smex::kernels
