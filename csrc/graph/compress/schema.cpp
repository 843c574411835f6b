// Edges grouped by row, and back.
#include <torch/library.h>

#include "graph/compress/operator.h"

namespace smex::graph {
namespace {

void check_list(const at::Tensor& rows, const at::Tensor& columns, const OptionalTensor& eids) {
  check_ids(kCompress, "rows", rows, rows);
  check_ids(kCompress, "columns", columns, rows);
  TORCH_CHECK_VALUE(columns.sym_size(0) == rows.sym_size(0), kCompress,
                    ": rows and columns must have one length, found ", rows.sym_size(0), " and ",
                    columns.sym_size(0));
  if (!eids) return;
  check_ids(kCompress, "eids", *eids, rows);
  TORCH_CHECK_VALUE(eids->sym_size(0) == rows.sym_size(0), kCompress, ": eids must have ",
                    rows.sym_size(0), " elements, found ", eids->sym_size(0));
}

}  // namespace

Three compress_meta(const at::Tensor& rows, const at::Tensor& columns, const OptionalTensor& eids,
                    c10::SymInt num_rows, c10::SymInt num_columns) {
  check_list(rows, columns, eids);
  TORCH_CHECK_VALUE(num_rows >= 0 && num_columns >= 0, kCompress,
                    ": numbers of rows and columns must not be negative, found ", num_rows, " and ",
                    num_columns);
  const auto edges = [&] { return at::empty_symint({rows.sym_size(0)}, rows.options()); };
  return {at::empty_symint({num_rows + 1}, rows.options()), edges(), edges()};
}

at::Tensor count_meta(const at::Tensor& ids, c10::SymInt size) {
  check_ids(kCount, "ids", ids, ids);
  return at::empty_symint({size}, ids.options());
}

Two expand_meta(const at::Tensor& indptr, const at::Tensor& indices, const OptionalTensor& eids) {
  check_rows(kExpand, indptr, indices, eids);
  const auto edges = [&] { return at::empty_symint({indices.sym_size(0)}, indices.options()); };
  return {edges(), edges()};
}

at::Tensor expand_rows_meta(const at::Tensor& indptr, c10::SymInt num_edges) {
  check_ids(kExpandRows, "indptr", indptr, indptr);
  TORCH_CHECK_VALUE(indptr.sym_size(0) >= 1, kExpandRows, ": indptr must not be empty");
  return at::empty_symint({num_edges}, indptr.options());
}

TORCH_LIBRARY_FRAGMENT(smex, m) {
  m.def(
      "compress_edges(Tensor rows, Tensor columns, Tensor? eids, SymInt num_rows, "
      "SymInt num_columns) -> (Tensor, Tensor, Tensor)");
  m.def("count_ids(Tensor ids, SymInt size) -> Tensor");
  m.def("expand_edges(Tensor indptr, Tensor indices, Tensor? eids) -> (Tensor, Tensor)");
  m.def("expand_rows(Tensor indptr, SymInt num_edges) -> Tensor");
}

TORCH_LIBRARY_IMPL(smex, Meta, m) {
  m.impl("compress_edges", compress_meta);
  m.impl("count_ids", count_meta);
  m.impl("expand_edges", expand_meta);
  m.impl("expand_rows", expand_rows_meta);
}

}  // namespace smex::graph
