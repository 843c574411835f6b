// What the files that register these operators share: each checks its arguments and makes the
// result, not initialised, whatever the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "edges/tensors.h"
#include "graph/compress/compress.h"

namespace smex::graph {

using OptionalTensor = std::optional<at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

constexpr const char* kCompress = "smex::compress_edges";
constexpr const char* kCount = "smex::count_ids";
constexpr const char* kExpand = "smex::expand_edges";
constexpr const char* kExpandRows = "smex::expand_rows";

Three compress_meta(const at::Tensor& rows, const at::Tensor& columns, const OptionalTensor& eids,
                    c10::SymInt num_rows, c10::SymInt num_columns);
at::Tensor count_meta(const at::Tensor& ids, c10::SymInt size);
Two expand_meta(const at::Tensor& indptr, const at::Tensor& indices, const OptionalTensor& eids);
at::Tensor expand_rows_meta(const at::Tensor& indptr, c10::SymInt num_edges);

/// Dense tensors of a list of edges.
struct ListTensors {
  at::Tensor rows, columns, eids;  // eids is undefined where it is the identity

  ListTensors(const at::Tensor& rows, const at::Tensor& columns, const OptionalTensor& eids)
      : rows(rows.contiguous()),
        columns(columns.contiguous()),
        eids(eids ? eids->contiguous() : at::Tensor()) {}

  template <typename Index>
  EdgeList<Index> list(int64_t num_rows, int64_t num_columns) const {
    return {rows.const_data_ptr<Index>(),
            columns.const_data_ptr<Index>(),
            eids.defined() ? eids.const_data_ptr<Index>() : nullptr,
            rows.size(0),
            num_rows,
            num_columns};
  }
};

template <typename Index>
CompressedEdges<Index> compressed_edges(const Three& result) {
  return {std::get<0>(result).mutable_data_ptr<Index>(),
          std::get<1>(result).mutable_data_ptr<Index>(),
          std::get<2>(result).mutable_data_ptr<Index>()};
}

}  // namespace smex::graph
