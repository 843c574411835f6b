// Nodes and edges in the orders of traversals. How many there are depends on the edges: there is no
// Meta implementation; and none for CUDA, since each step follows from the one before.
#include <torch/library.h>

namespace smex::graph {

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "bfs_edges_levels(Tensor indptr, Tensor indices, Tensor? eids, Tensor sources) -> "
      "(Tensor, Tensor)");
  m.def(
      "bfs_nodes_levels(Tensor indptr, Tensor indices, Tensor sources, int max_steps=-1) -> "
      "(Tensor, Tensor)");
  m.def(
      "dfs_labeled_edges(Tensor indptr, Tensor indices, Tensor? eids, Tensor sources, "
      "bool with_reverse, bool with_nontree) -> (Tensor, Tensor, Tensor)");
  m.def("topological_levels(Tensor indptr, Tensor indices) -> (Tensor, Tensor)");
}

}  // namespace smex::graph
