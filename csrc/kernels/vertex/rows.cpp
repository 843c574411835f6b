// smex::add_rows: the gradients of gathered rows, added to those of the rows they came from.
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/index_add.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/message/dispatch.h"

#ifdef SMEX_WITH_CUDA
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/vertex/cuda/add_rows.h"
#endif

namespace smex::kernels {
namespace {

constexpr const char* kOp = "smex::add_rows";

/// A stable order in which the numbers ascend, where the caller has it.
using Order = std::optional<at::Tensor>;

// Elements that are worth a thread, and columns that are: a cache line of a row of floats.
constexpr int64_t kGrainSize = 32768;
constexpr int64_t kColumns = 16;

void check(const at::Tensor& to, const at::Tensor& index, const at::Tensor& rows,
           const Order& order) {
  TORCH_CHECK_VALUE(index.dim() == 1 && rows.dim() == to.dim() && to.dim() > 0 &&
                        rows.sym_size(0) == index.sym_size(0) &&
                        rows.sym_sizes().slice(1) == to.sym_sizes().slice(1),
                    kOp, ": expected a row of shape ", to.sym_sizes().slice(1), " for each of ",
                    index.sym_size(0), " numbers, found ", rows.sym_sizes());
  TORCH_CHECK_TYPE(index.scalar_type() == at::kLong && rows.scalar_type() == to.scalar_type(), kOp,
                   ": expected int64 numbers and rows of type ", to.scalar_type(), ", found ",
                   index.scalar_type(), " and ", rows.scalar_type());
  TORCH_CHECK_VALUE(index.device() == to.device() && rows.device() == to.device(), kOp,
                    ": expected numbers and rows on ", to.device(), ", found ", index.device(),
                    " and ", rows.device());
  if (!order) return;
  TORCH_CHECK_VALUE(order->sym_sizes() == index.sym_sizes() && order->scalar_type() == at::kLong &&
                        order->device() == index.device(),
                    kOp, ": expected an order of int64 ", index.sym_sizes(), " on ", index.device(),
                    ", found ", order->scalar_type(), " ", order->sym_sizes(), " on ",
                    order->device());
}

void add_rows(at::Tensor& to, const at::Tensor& index, const at::Tensor& rows, int64_t absent,
              const Order& order) {
  check(to, index, rows, order);
  if (absent < 0) {
    to.index_add_(0, index, rows);
    return;
  }
  std::vector<int64_t> one_each(to.dim(), 1);
  one_each[0] = -1;
  to.index_add_(0, index, rows.masked_fill(index.eq(absent).view(one_each), 0));
}

/// Both as matrices of rows, where their memory allows it.
std::optional<std::pair<at::Tensor, at::Tensor>> matrices(const at::Tensor& to,
                                                          const at::Tensor& rows) {
  if (to.dim() == 2)
    return to.stride(1) == 1 && rows.stride(1) == 1 ? std::make_optional(std::pair(to, rows))
                                                    : std::nullopt;
  if (!to.is_contiguous() || !rows.is_contiguous() || to.size(0) == 0) return std::nullopt;
  const int64_t width = to.numel() / to.size(0);
  return std::pair(to.view({to.size(0), width}), rows.view({rows.size(0), width}));
}

void add_rows_on_cpu(at::Tensor& to, const at::Tensor& index, const at::Tensor& rows,
                     int64_t absent, const Order& order) {
  check(to, index, rows, order);
  const bool has_type = to.scalar_type() == at::kFloat || to.scalar_type() == at::kDouble;
  const auto both = has_type ? matrices(to, rows) : std::nullopt;
  if (!both) return add_rows(to, index, rows, absent, order);
  const at::Tensor numbers = index.contiguous();
  const auto* const place = numbers.const_data_ptr<int64_t>();
  const int64_t count = index.size(0), width = both->first.size(1), num_rows = to.size(0);
  for (int64_t i = 0; i < count; ++i) {
    TORCH_CHECK_INDEX(place[i] >= 0 && place[i] < num_rows, kOp, ": expected numbers from 0 to ",
                      num_rows - 1, ", found ", place[i]);
  }
  // Threads share the columns: rows that occur twice are added in order.
  const int64_t grain = std::max(kColumns, kGrainSize / std::max<int64_t>(1, count));
  AT_DISPATCH_FLOATING_TYPES(to.scalar_type(), kOp, [&] {
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

#ifdef SMEX_WITH_CUDA
void add_rows_on_cuda(at::Tensor& to, const at::Tensor& index, const at::Tensor& rows,
                      int64_t absent, const Order& order) {
  check(to, index, rows, order);
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
  dispatch_features(kOp, type, [&](auto feature) {
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
#endif

void add_rows_meta(at::Tensor& to, const at::Tensor& index, const at::Tensor& rows,
                   int64_t /*absent*/, const Order& order) {
  check(to, index, rows, order);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "add_rows(Tensor(a!) to, Tensor index, Tensor rows, *, int absent=-1, Tensor? order=None) "
      "-> ()");
}

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) { m.impl("add_rows", add_rows); }

TORCH_LIBRARY_IMPL(smex, CPU, m) { m.impl("add_rows", add_rows_on_cpu); }

#ifdef SMEX_WITH_CUDA
TORCH_LIBRARY_IMPL(smex, CUDA, m) { m.impl("add_rows", add_rows_on_cuda); }
#endif

TORCH_LIBRARY_IMPL(smex, Meta, m) { m.impl("add_rows", add_rows_meta); }

}  // namespace smex::kernels
