// New numbers for ids. How many different ones there are depends on them: there is no Meta
// implementation.
#include <torch/library.h>

namespace smex::graph {

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def("relabel_ids(Tensor[] lists, int? num_ids=None) -> (Tensor, Tensor[])");
}

}  // namespace smex::graph
