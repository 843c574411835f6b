#pragma once

#include <vector>

#include "kernels/typed/operator.h"

namespace smex::kernels {

/// The pairs (row, type of edge) of some rows of edges, in the order of types, and of each type in
/// that of rows: what lies along a pair's edges is added up before it meets the type's matrix.
struct TypedPairs {
  at::Tensor begin;                    ///< [pairs + 1], into the edges below
  at::Tensor sources, eids;            ///< [edges], one pair after another
  at::Tensor rows;                     ///< [pairs], int64
  at::Tensor row_begin, of_rows;       ///< compressed: the pairs of each of the rows
  std::vector<int64_t> pairs_by_type;  ///< how many pairs each type has

  int64_t size() const { return rows.size(0); }
};

/// The pairs of the rows `first` to `last`, whose call has been checked. On the CPU in linear time,
/// elsewhere by torch's operators. Throws where types, numbers of edges or sources do not exist.
TypedPairs typed_pairs(const TypedCall& call, const EdgeTensors& edges, int64_t num_types,
                       int64_t first, int64_t last);

/// Ends of ranges of rows with about as many edges, so that what is made of pairs of one range
/// stays near; one range where that is not on the CPU.
std::vector<int64_t> row_ranges(const EdgeTensors& edges, int64_t num_types);

}  // namespace smex::kernels
