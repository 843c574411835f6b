// Layer-neighbour sampling. How many edges are drawn is drawn itself: there is no Meta
// implementation; and none for CUDA, where sums would come in another order and with them others
// would be drawn.
#include <torch/library.h>

namespace smex::graph {

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "sample_labors(Tensor indptr, Tensor indices, Tensor? eids, Tensor nodes, int fanout, "
      "Tensor? weights, Tensor? excluded, int iterations, int seed, int second_seed, float share) "
      "-> (Tensor, Tensor, Tensor, Tensor)");
}

}  // namespace smex::graph
