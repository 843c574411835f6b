#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "smex/export.h"

namespace smex {

/// The input graphs of a mini-batch, one for each sample: directed and acyclic, with an edge from
/// each vertex to every child whose state it gathers. Vertices are numbered through the batch.
struct SMEX_API InputGraphs {
  std::vector<int64_t> sample_offsets{0};  ///< [samples + 1], the first vertex of each sample
  std::vector<int64_t> child_offsets{0};   ///< [vertices + 1], into `children`
  std::vector<int64_t> children;           ///< [edges], by argument position of their parents
  std::vector<int64_t> types;              ///< [vertices], or empty: all are of type 0

  /// Adds a sample: by vertex its children, as numbers within the sample, and its type, unless all
  /// are of type 0.
  void add(const std::vector<std::vector<int64_t>>& children_of,
           const std::vector<int64_t>& types_of = {});
  int64_t num_vertices() const { return static_cast<int64_t>(child_offsets.size()) - 1; }
};

/// Vertices that are computed together: of one type, and none waits for another.
struct VertexTask {
  int64_t type = 0;
  int64_t begin = 0, end = 0;            ///< rows
  int64_t edge_begin = 0, edge_end = 0;  ///< of VertexSchedule::edge_rows
  int64_t slot_begin = 0;                ///< of VertexSchedule::slot_rows
  int64_t slots = 0;                     ///< argument positions that some vertex has a child at

  int64_t size() const { return end - begin; }
};

/// What is computed when, and where it lies: rows are the vertices renumbered, so that those of a
/// task are contiguous. Tensors are int64, on the CPU.
struct SMEX_API VertexSchedule {
  std::vector<VertexTask> tasks;  ///< in the order to run them in
  at::Tensor vertices;            ///< [vertices], the vertex of each row
  at::Tensor rows;                ///< [vertices], the row of each vertex
  at::Tensor roots;               ///< rows of the vertices without parents, by vertex
  at::Tensor edge_offsets;        ///< [vertices + 1], the first edge of each row
  at::Tensor edge_rows;           ///< [edges], the children's rows
  at::Tensor parents;             ///< [edges], the parent's row within its task
  at::Tensor slot_rows;           ///< see children_at

  /// [task.size()], the rows of the children at an argument position; where there is no child, the
  /// number of vertices, which a row of zeros may stand for. Undefined where no vertex of the task
  /// has one there.
  at::Tensor children_at(const VertexTask& task, int64_t slot) const;
};

/// Schedules input graphs; a vertex is in the first task in which all of its children are computed.
///
/// `slots[type]` is the number of argument positions that vertices of the type read one by one.
/// Linear in vertices and edges; deterministic. Throws std::invalid_argument that names sample and
/// vertex for cycles, and for children and types that are not there.
SMEX_API VertexSchedule schedule_vertices(const InputGraphs& graphs,
                                          const std::vector<int64_t>& slots);

}  // namespace smex
