#include <ATen/ops/index_add.h>
#include <torch/library.h>

#include <vector>

#include "kernels/add_rows/operator.h"

namespace smex::kernels {

void add_rows(at::Tensor& to, const at::Tensor& index, const at::Tensor& rows, int64_t absent,
              const Order& order) {
  check_add_rows(to, index, rows, order);
  if (absent < 0) {
    to.index_add_(0, index, rows);
    return;
  }
  std::vector<int64_t> one_each(to.dim(), 1);
  one_each[0] = -1;
  to.index_add_(0, index, rows.masked_fill(index.eq(absent).view(one_each), 0));
}

TORCH_LIBRARY_IMPL(smex, CompositeExplicitAutograd, m) { m.impl("add_rows", add_rows); }

}  // namespace smex::kernels
