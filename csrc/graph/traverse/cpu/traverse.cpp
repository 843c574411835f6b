#include "graph/traverse/traverse.h"

#include <algorithm>

#include "graph/compress/compress.h"

namespace smex::graph {
namespace {

/// Visits the steps of a breadth-first search: `reach(position, node)` for each node's first edge.
template <typename Index, typename Reach>
void breadth_first(const EdgeRows<Index>& rows, std::vector<Index> frontier, int64_t max_steps,
                   const Reach& reach) {
  std::vector<bool> visited(rows.num_rows, false);
  for (const Index node : frontier) visited[node] = true;
  std::vector<Index> next;
  for (int64_t step = 0; step != max_steps && !frontier.empty(); ++step) {
    next.clear();
    for (const Index node : frontier) {
      for (int64_t p = rows.begin(node); p < rows.end(node); ++p) {
        const Index column = rows.indices[p];
        if (visited[column]) continue;
        visited[column] = true;
        next.push_back(column);
        reach(step, p, column);
      }
    }
    frontier.swap(next);
  }
}

/// Adds an id to step `step`, the last or a new one.
template <typename Index>
void push(Frontiers<Index>& frontiers, int64_t step, Index id) {
  if (step >= static_cast<int64_t>(frontiers.sizes.size())) frontiers.sizes.push_back(0);
  ++frontiers.sizes[step];
  frontiers.ids.push_back(id);
}

template <typename Index>
struct Labeled {
  Index edge;
  EdgeLabel label;
};

/// One depth-first search; `visited[node]` becomes `mark`.
template <typename Index>
std::vector<Labeled<Index>> depth_first(const EdgeRows<Index>& rows, Index source,
                                        bool with_reverse, bool with_nontree, int64_t mark,
                                        std::vector<int64_t>& visited) {
  struct Open {
    int64_t next;  // position in the node's row
    int64_t end;
    int64_t entry;  // position of the edge that reached it
  };
  std::vector<Labeled<Index>> found;
  std::vector<Open> stack = {{rows.begin(source), rows.end(source), -1}};
  visited[source] = mark;
  while (!stack.empty()) {
    Open& top = stack.back();
    if (top.next == top.end) {
      if (with_reverse && top.entry >= 0) {
        found.push_back({rows.eid(top.entry), EdgeLabel::kReverse});
      }
      stack.pop_back();
      continue;
    }
    const int64_t p = top.next++;
    const Index column = rows.indices[p];
    if (visited[column] == mark) {
      if (with_nontree) found.push_back({rows.eid(p), EdgeLabel::kNonTree});
      continue;
    }
    visited[column] = mark;
    found.push_back({rows.eid(p), EdgeLabel::kForward});
    stack.push_back({rows.begin(column), rows.end(column), p});
  }
  return found;
}

}  // namespace

template <typename Index>
Frontiers<Index> bfs_nodes(const EdgeRows<Index>& rows, const Index* sources, int64_t count,
                           int64_t max_steps) {
  Frontiers<Index> frontiers{{sources, sources + count}, {}};
  if (count > 0) frontiers.sizes.push_back(count);
  breadth_first(rows, frontiers.ids, max_steps,
                [&](int64_t step, int64_t, Index node) { push(frontiers, step + 1, node); });
  return frontiers;
}

template <typename Index>
Frontiers<Index> bfs_edges(const EdgeRows<Index>& rows, const Index* sources, int64_t count) {
  Frontiers<Index> frontiers;
  breadth_first(
      rows, std::vector<Index>(sources, sources + count), /*max_steps=*/-1,
      [&](int64_t step, int64_t position, Index) { push(frontiers, step, rows.eid(position)); });
  return frontiers;
}

template <typename Index>
Frontiers<Index> dfs_edges(const EdgeRows<Index>& rows, const Index* sources, int64_t count,
                           bool with_reverse, bool with_nontree, std::vector<int64_t>& labels) {
  std::vector<int64_t> visited(rows.num_rows, -1);
  std::vector<std::vector<Labeled<Index>>> searches;
  size_t longest = 0;
  for (int64_t i = 0; i < count; ++i) {
    searches.push_back(
        depth_first(rows, sources[i], with_reverse, with_nontree, /*mark=*/i, visited));
    longest = std::max(longest, searches.back().size());
  }
  Frontiers<Index> frontiers;
  for (size_t k = 0; k < longest; ++k) {
    for (const auto& search : searches) {
      if (k >= search.size()) continue;
      push(frontiers, static_cast<int64_t>(k), search[k].edge);
      labels.push_back(static_cast<int64_t>(search[k].label));
    }
  }
  return frontiers;
}

template <typename Index>
Frontiers<Index> topological_nodes(const EdgeRows<Index>& rows) {
  std::vector<int64_t> missing(rows.num_rows, 0);  // edges into a node from nodes not yet listed
  for (int64_t p = 0; p < rows.num_edges; ++p) ++missing[rows.indices[p]];
  Frontiers<Index> frontiers;
  for (int64_t node = 0; node < rows.num_rows; ++node) {
    if (missing[node] == 0) push(frontiers, 0, static_cast<Index>(node));
  }
  int64_t begin = 0;
  for (int64_t step = 1; begin < static_cast<int64_t>(frontiers.ids.size()); ++step) {
    const int64_t end = static_cast<int64_t>(frontiers.ids.size());
    for (; begin < end; ++begin) {
      const Index node = frontiers.ids[begin];
      for (int64_t p = rows.begin(node); p < rows.end(node); ++p) {
        if (--missing[rows.indices[p]] == 0) push(frontiers, step, rows.indices[p]);
      }
    }
  }
  return frontiers;
}

template <typename Index>
const char* why_not_square(const EdgeRows<Index>& rows) {
  if (!is_indptr(rows.indptr, rows.num_rows, rows.num_edges)) {
    return "indptr must ascend from 0 to the number of edges";
  }
  uint64_t largest = 0;
  for (int64_t p = 0; p < rows.num_edges; ++p) {
    largest = std::max(largest, static_cast<uint64_t>(rows.indices[p]));
  }
  if (rows.num_edges > 0 && largest >= static_cast<uint64_t>(rows.num_rows)) {
    return "every column must be a row: source and destination nodes must be of one type";
  }
  return nullptr;
}

#define SMEX_INSTANTIATE(Index)                                                                   \
  template Frontiers<Index> bfs_nodes<Index>(const EdgeRows<Index>&, const Index*, int64_t,       \
                                             int64_t);                                            \
  template Frontiers<Index> bfs_edges<Index>(const EdgeRows<Index>&, const Index*, int64_t);      \
  template Frontiers<Index> dfs_edges<Index>(const EdgeRows<Index>&, const Index*, int64_t, bool, \
                                             bool, std::vector<int64_t>&);                        \
  template Frontiers<Index> topological_nodes<Index>(const EdgeRows<Index>&);                     \
  template const char* why_not_square<Index>(const EdgeRows<Index>&);

SMEX_INSTANTIATE(int32_t)
SMEX_INSTANTIATE(int64_t)

}  // namespace smex::graph
