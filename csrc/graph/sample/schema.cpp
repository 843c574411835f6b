// Some edges of each row, drawn or by their values. How many they are depends on the edges: there
// is no Meta implementation; and for CUDA none of drawing, where each row reads a stream of random
// numbers of its own.
#include <torch/library.h>

namespace smex::graph {

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "sample_neighbors(Tensor indptr, Tensor indices, Tensor? eids, Tensor nodes, int fanout, "
      "bool replace, Tensor? weights, Tensor? excluded, int seed) -> (Tensor, Tensor, Tensor)");
  m.def(
      "select_topk(Tensor indptr, Tensor indices, Tensor? eids, Tensor nodes, int k, "
      "Tensor values, bool ascending) -> (Tensor, Tensor, Tensor)");
}

}  // namespace smex::graph
