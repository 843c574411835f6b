// Edges between given nodes, and parallel edges. Without a Meta implementation: has_parallel, whose
// result is a value of the edges, and merge_parallel, whose results are as many as there are pairs.
#include <torch/library.h>

#include "graph/lookup/operator.h"

namespace smex::graph {
namespace {

void check_queries(const char* op, const at::Tensor& rows, const at::Tensor& columns,
                   const at::Tensor& like) {
  check_ids(op, "rows", rows, like);
  check_ids(op, "columns", columns, like);
  TORCH_CHECK_VALUE(rows.sym_size(0) == columns.sym_size(0), op,
                    ": rows and columns must have one length, found ", rows.sym_size(0), " and ",
                    columns.sym_size(0));
}

}  // namespace

at::Tensor find_scan_meta(const at::Tensor& indptr, const at::Tensor& indices,
                          const OptionalTensor& eids, const at::Tensor& rows,
                          const at::Tensor& columns) {
  check_rows(kFindScan, indptr, indices, eids);
  check_queries(kFindScan, rows, columns, indices);
  return at::empty_symint({rows.sym_size(0)}, rows.options());
}

Two find_sorted_meta(const at::Tensor& indptr, const at::Tensor& indices, const at::Tensor& rows,
                     const at::Tensor& columns) {
  check_rows(kFindSorted, indptr, indices, std::nullopt);
  check_queries(kFindSorted, rows, columns, indices);
  const auto answers = [&] { return at::empty_symint({rows.sym_size(0)}, rows.options()); };
  return {answers(), answers()};
}

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "find_scan(Tensor indptr, Tensor indices, Tensor? eids, Tensor rows, Tensor columns) -> "
      "Tensor");
  m.def(
      "find_sorted(Tensor indptr, Tensor indices, Tensor rows, Tensor columns) -> "
      "(Tensor, Tensor)");
  m.def("has_parallel(Tensor indptr, Tensor indices) -> bool");
  m.def(
      "merge_parallel(Tensor indptr, Tensor indices, Tensor? eids) -> "
      "(Tensor, Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("find_scan", find_scan_meta);
  m.impl("find_sorted", find_sorted_meta);
}

}  // namespace smex::graph
