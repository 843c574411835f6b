#include <torch/library.h>

#include "graph/relabel/operator.h"
#include "graph/relabel/relabel.h"

namespace smex::graph {
namespace {

Relabeled relabel_on_cpu(at::TensorList lists, std::optional<int64_t> num_ids) {
  const int64_t total = check_lists(lists);
  return dispatch_index(lists[0], [&]<typename Index>(Index) -> Relabeled {
    Relabeling<Index> relabeling(total, num_ids.value_or(-1));
    std::vector<at::Tensor> numbers;
    for (const at::Tensor& list : lists) {
      const at::Tensor ids = list.contiguous();
      numbers.push_back(empty_ids(ids.size(0), ids));
      const int64_t invalid = relabeling.add(ids.const_data_ptr<Index>(), ids.size(0),
                                             numbers.back().mutable_data_ptr<Index>());
      TORCH_CHECK_VALUE(invalid < 0, kRelabel, ": id ", ids[invalid].item<int64_t>(),
                        " at position ", invalid, " of list ", numbers.size() - 1,
                        " is not in [0, ", num_ids.value_or(-1), ")");
    }
    return {to_tensor(relabeling.ids(), lists[0].options()), numbers};
  });
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) { m.impl("relabel_ids", relabel_on_cpu); }

}  // namespace smex::graph
