#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace smex::vertex {

/// How many children the vertices of a type may have.
struct Arity {
  int64_t fewest = 0;
  int64_t most = -1;     ///< -1: any number
  bool or_none = false;  ///< none is allowed below `fewest` too
  std::string of;        ///< what errors call the type
};

/// The input graphs of a mini-batch, one for each sample (Cavs §3): directed and acyclic, with an
/// edge from each vertex to every child whose state it gathers. Vertices are numbered through the
/// batch, sample by sample; a child may have several parents.
struct InputGraphs {
  std::span<const int64_t> sample_offsets;  ///< [samples + 1], the first vertex of each sample
  std::span<const int64_t> child_offsets;   ///< [vertices + 1], into `children`
  std::span<const int64_t> children;        ///< [edges], by argument position of their parents
  std::span<const int64_t> types;           ///< [vertices], or empty: all are of type 0

  int64_t num_samples() const { return static_cast<int64_t>(sample_offsets.size()) - 1; }
  int64_t num_vertices() const { return static_cast<int64_t>(child_offsets.size()) - 1; }
  int64_t type(int64_t vertex) const { return types.empty() ? 0 : types[vertex]; }
  int64_t num_children(int64_t vertex) const {
    return child_offsets[vertex + 1] - child_offsets[vertex];
  }
  std::span<const int64_t> children_of(int64_t vertex) const {
    return children.subspan(child_offsets[vertex], num_children(vertex));
  }
};

/// Checks sizes, offsets, types, children and their numbers; cycles are found by `levels`.
/// Linear in vertices and edges. Throws UserError that names sample and vertex, the latter
/// numbered within its sample.
void check(const InputGraphs& graphs, std::span<const Arity> arities);

/// The level of each vertex: 0 without children, else one more than its highest child's.
/// Linear in vertices and edges. Throws UserError with the vertices of a cycle, if there is one.
std::vector<int64_t> levels(const InputGraphs& graphs);

}  // namespace smex::vertex
