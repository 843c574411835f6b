#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "smex/export.h"

namespace smex {

/// Some nodes of a graph as targets, edges into them, and the nodes that these come from.
///
/// Sources are numbered: first the targets in their order, then the others as edges name them.
struct Block {
  at::Tensor nodes;    ///< [sources], their ids in the graph
  at::Tensor indptr;   ///< [targets + 1], the first edge of each target
  at::Tensor indices;  ///< [edges], the number of each edge's source
  at::Tensor eids;     ///< [edges], ids in the graph

  int64_t num_sources() const { return nodes.size(0); }
  int64_t num_targets() const { return indptr.size(0) - 1; }
  int64_t num_edges() const { return indices.size(0); }
};

struct SampleOptions {
  bool replace = false;              ///< whether an edge may be drawn more than once
  at::Tensor weights;                ///< [edges] by id, to draw by; undefined: all are equal
  std::optional<int64_t> seed = {};  ///< without it drawn from torch's generator
};

/// A directed graph, its edges sorted by the node that they go into. Ids are int64, or all int32;
/// tensors are on the CPU where neighbours are drawn. Cheap to copy: tensors are shared.
class SMEX_API Graph {
 public:
  /// Edges source[i] -> target[i], whose ids are i. Throws c10::Error for ids that are no nodes.
  static Graph from_edges(const at::Tensor& source, const at::Tensor& target, int64_t num_nodes);
  /// `eids` may be undefined: ids are places in `indices`. Nothing is copied.
  Graph(at::Tensor indptr, at::Tensor indices, at::Tensor eids = {});

  int64_t num_nodes() const { return indptr_.size(0) - 1; }
  int64_t num_edges() const { return indices_.size(0); }
  const at::Tensor& indptr() const { return indptr_; }    ///< [nodes + 1]
  const at::Tensor& indices() const { return indices_; }  ///< [edges], the sources
  const at::Tensor& eids() const { return eids_; }        ///< [edges], or undefined
  at::Tensor in_degrees() const;                          ///< [nodes]

  /// Up to `fanout` edges into each of the nodes, drawn by chance; all of them where it is -1.
  /// The same for the same seed, whatever the number of threads: those that
  /// `smex.graph.sampling.sample_neighbors` draws in Python. Nodes are different ids.
  /// Throws c10::Error for nodes that are not there.
  Block sample(const at::Tensor& nodes, int64_t fanout, const SampleOptions& options = {}) const;

  /// A block for each layer of a network, the one that is computed first first: its sources are
  /// the nodes whose features are read, the targets of the last one are `nodes`. As
  /// `NeighborSampler` in Python. With a seed each layer has one of its own.
  std::vector<Block> sample_layers(const at::Tensor& nodes, const std::vector<int64_t>& fanouts,
                                   const SampleOptions& options = {}) const;

 private:
  at::Tensor indptr_, indices_, eids_;
};

}  // namespace smex
