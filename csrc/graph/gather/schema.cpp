// Rows of a column that lies in pieces. Which of them are missing depends on the ids: there is no
// Meta implementation.
#include <torch/library.h>

namespace smex::graph {

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def("gather_rows(Tensor[] pieces, Tensor starts, Tensor ids) -> (Tensor, Tensor)");
}

}  // namespace smex::graph
