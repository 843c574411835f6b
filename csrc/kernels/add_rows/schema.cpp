// smex::add_rows: the gradients of gathered rows, added to those of the rows they came from.
#include <torch/library.h>

#include "kernels/add_rows/operator.h"

namespace smex::kernels {

void check_add_rows(const at::Tensor& to, const at::Tensor& index, const at::Tensor& rows,
                    const Order& order) {
  TORCH_CHECK_VALUE(index.dim() == 1 && rows.dim() == to.dim() && to.dim() > 0 &&
                        rows.sym_size(0) == index.sym_size(0) &&
                        rows.sym_sizes().slice(1) == to.sym_sizes().slice(1),
                    kAddRows, ": expected a row of shape ", to.sym_sizes().slice(1),
                    " for each of ", index.sym_size(0), " numbers, found ", rows.sym_sizes());
  TORCH_CHECK_TYPE(index.scalar_type() == at::kLong && rows.scalar_type() == to.scalar_type(),
                   kAddRows, ": expected int64 numbers and rows of type ", to.scalar_type(),
                   ", found ", index.scalar_type(), " and ", rows.scalar_type());
  TORCH_CHECK_VALUE(index.device() == to.device() && rows.device() == to.device(), kAddRows,
                    ": expected numbers and rows on ", to.device(), ", found ", index.device(),
                    " and ", rows.device());
  if (!order) return;
  TORCH_CHECK_VALUE(order->sym_sizes() == index.sym_sizes() && order->scalar_type() == at::kLong &&
                        order->device() == index.device(),
                    kAddRows, ": expected an order of int64 ", index.sym_sizes(), " on ",
                    index.device(), ", found ", order->scalar_type(), " ", order->sym_sizes(),
                    " on ", order->device());
}

namespace {

void add_rows_meta(at::Tensor& to, const at::Tensor& index, const at::Tensor& rows,
                   int64_t /*absent*/, const Order& order) {
  check_add_rows(to, index, rows, order);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "add_rows(Tensor(a!) to, Tensor index, Tensor rows, *, int absent=-1, Tensor? order=None) "
      "-> ()");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) { m.impl("add_rows", add_rows_meta); }

}  // namespace smex::kernels
