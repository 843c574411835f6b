// Graphs that are read from files block by block. These operators write to their arguments or have
// shapes that depend on numbers: there is no Meta implementation.
#include <torch/library.h>

namespace smex::graph {

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def("add_counts_(Tensor(a!) counts, Tensor ids) -> int");
  m.def(
      "assign_stream_(Tensor(a!) parts, Tensor(b!) loads, Tensor indptr, Tensor neighbors, "
      "int first, Tensor? kinds, Tensor capacities, str method, float alpha, bool weighs_edges) "
      "-> int");
  m.def(
      "bucket_edges(Tensor rows, Tensor columns, Tensor? new_rows, Tensor? new_columns, "
      "int num_rows, int num_columns, Tensor bounds, int first_id) -> (Tensor, Tensor, Tensor)");
  m.def("order_bucket(Tensor records, Tensor indptr, bool with_order) -> (Tensor, Tensor, Tensor)");
  m.def("parse_numbers(Tensor text, int columns, str delimiter) -> (Tensor, int)");
}

}  // namespace smex::graph
