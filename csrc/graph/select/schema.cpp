// The edges of some rows. How many they are depends on the edges: there is no Meta implementation.
#include <torch/library.h>

namespace smex::graph {

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "induced_edges(Tensor indptr, Tensor indices, Tensor? eids, Tensor rows, Tensor names) -> "
      "(Tensor, Tensor, Tensor)");
  m.def(
      "take_rows(Tensor indptr, Tensor indices, Tensor? eids, Tensor rows) -> "
      "(Tensor, Tensor, Tensor)");
}

}  // namespace smex::graph
