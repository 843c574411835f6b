#include "graph/traverse/traverse.h"

#include <torch/library.h>

#include <tuple>

#include "edges/tensors.h"

namespace smex::graph {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

template <typename Index>
Two to_tensors(const Frontiers<Index>& frontiers, const at::Tensor& like) {
  return {to_tensor(frontiers.ids, like.options()), to_tensor(frontiers.sizes, like.options())};
}

/// Checks the adjacency and the sources, then calls `search(rows, sources, count)`.
template <typename Search>
auto traverse(const char* op, const at::Tensor& indptr, const at::Tensor& indices,
              const OptionalTensor& eids, const at::Tensor& sources, const Search& search) {
  check_rows(op, indptr, indices, eids);
  check_ids(op, "sources", sources, indices);
  const EdgeTensors tensors(indptr, indices, eids);
  const at::Tensor starts = sources.contiguous();
  return dispatch_index(indices, [&]<typename Index>(Index) {
    const EdgeRows<Index> rows = tensors.rows<Index>();
    const char* const problem = why_not_square(rows);
    TORCH_CHECK_VALUE(problem == nullptr, op, ": ", problem);
    const Index* const from = starts.const_data_ptr<Index>();
    for (int64_t i = 0; i < starts.size(0); ++i) {
      TORCH_CHECK_VALUE(from[i] >= 0 && from[i] < rows.num_rows, op, ": sources[", i, "] is ",
                        from[i], ", expected a node in [0, ", rows.num_rows, ")");
    }
    return search(rows, from, starts.size(0));
  });
}

Two bfs_nodes_on_cpu(const at::Tensor& indptr, const at::Tensor& indices, const at::Tensor& sources,
                     int64_t max_steps) {
  return traverse("smex::bfs_nodes_levels", indptr, indices, std::nullopt, sources,
                  [&](const auto& rows, const auto* from, int64_t count) {
                    return to_tensors(bfs_nodes(rows, from, count, max_steps), indices);
                  });
}

Two bfs_edges_on_cpu(const at::Tensor& indptr, const at::Tensor& indices,
                     const OptionalTensor& eids, const at::Tensor& sources) {
  return traverse("smex::bfs_edges_levels", indptr, indices, eids, sources,
                  [&](const auto& rows, const auto* from, int64_t count) {
                    return to_tensors(bfs_edges(rows, from, count), indices);
                  });
}

Three dfs_edges_on_cpu(const at::Tensor& indptr, const at::Tensor& indices,
                       const OptionalTensor& eids, const at::Tensor& sources, bool with_reverse,
                       bool with_nontree) {
  return traverse("smex::dfs_labeled_edges", indptr, indices, eids, sources,
                  [&](const auto& rows, const auto* from, int64_t count) -> Three {
                    std::vector<int64_t> labels;
                    const auto frontiers =
                        dfs_edges(rows, from, count, with_reverse, with_nontree, labels);
                    const auto [edges, sizes] = to_tensors(frontiers, indices);
                    return {edges, to_tensor(labels, indices.options()), sizes};
                  });
}

Two topological_on_cpu(const at::Tensor& indptr, const at::Tensor& indices) {
  return traverse("smex::topological_levels", indptr, indices, std::nullopt, empty_ids(0, indices),
                  [&](const auto& rows, const auto*, int64_t) {
                    return to_tensors(topological_nodes(rows), indices);
                  });
}

}  // namespace

TORCH_LIBRARY_IMPL(smex, CPU, m) {
  m.impl("bfs_edges_levels", bfs_edges_on_cpu);
  m.impl("bfs_nodes_levels", bfs_nodes_on_cpu);
  m.impl("dfs_labeled_edges", dfs_edges_on_cpu);
  m.impl("topological_levels", topological_on_cpu);
}

}  // namespace smex::graph
