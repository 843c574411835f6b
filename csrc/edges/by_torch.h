// Rows of edges by torch's operators, for devices that have no kernel of an algorithm.
#pragma once

#include <ATen/core/Tensor.h>

#include "edges/tensors.h"

namespace smex {

/// The row of each position `[num_edges]`, in the ids' type.
at::Tensor rows_of_positions(const EdgeTensors& edges);

/// The edges of chosen rows, one row after another: int64 vectors.
struct ChosenEdges {
  at::Tensor positions;
  at::Tensor owners;   ///< the place of each edge's row among those that were chosen
  at::Tensor lengths;  ///< how many edges each chosen row has
};

/// torch raises where a row does not exist.
ChosenEdges edges_of_rows(const EdgeTensors& edges, const at::Tensor& rows);

/// The ids of the edges at some positions, in the ids' type.
at::Tensor eids_at(const EdgeTensors& edges, const at::Tensor& positions);

}  // namespace smex
