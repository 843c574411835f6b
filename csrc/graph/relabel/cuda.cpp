// By torch's operators.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_unique2.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/nonzero.h>
#include <torch/library.h>

#include "graph/relabel/operator.h"

namespace smex::graph {
namespace {

void check_bound(const at::Tensor& joined, at::TensorList lists, int64_t num_ids) {
  const at::Tensor outside = joined.lt(0).logical_or_(joined.ge(num_ids)).nonzero();
  if (outside.size(0) == 0) return;
  int64_t position = outside[0].item<int64_t>();
  size_t list = 0;
  while (position >= lists[list].size(0)) position -= lists[list++].size(0);
  TORCH_CHECK_VALUE(false, kRelabel, ": id ", lists[list][position].item<int64_t>(),
                    " at position ", position, " of list ", list, " is not in [0, ", num_ids, ")");
}

Relabeled relabel_by_torch(at::TensorList lists, std::optional<int64_t> num_ids) {
  const int64_t total = check_lists(lists);
  const at::Tensor joined = at::cat(lists);
  if (num_ids) check_bound(joined, lists, *num_ids);
  const auto [values, inverse, counts] =
      at::_unique2(joined, /*sorted=*/true, /*return_inverse=*/true);
  // Ordered by where each first comes.
  const at::Tensor places = at::arange(total, inverse.options());
  const at::Tensor first = at::full({values.size(0)}, total, inverse.options())
                               .scatter_reduce_(0, inverse, places, "amin");
  const at::Tensor order = first.argsort();
  const at::Tensor number =
      at::empty_like(order).index_copy_(0, order, at::arange(order.size(0), order.options()));
  const at::Tensor numbers = number.index_select(0, inverse).to(joined.scalar_type());
  std::vector<at::Tensor> by_list;
  int64_t begin = 0;
  for (const at::Tensor& ids : lists) {
    by_list.push_back(numbers.slice(0, begin, begin + ids.size(0)));
    begin += ids.size(0);
  }
  return {values.index_select(0, order), by_list};
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CUDA, m) { m.impl("relabel_ids", relabel_by_torch); }

}  // namespace smex::graph
