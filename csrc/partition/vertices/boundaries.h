#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "ir/graph.h"
#include "partition/plan/plan.h"
#include "tdl/spec.h"
#include "tdl/table.h"

namespace smex {

/// Where the parts of a graph's vertices end, by the number of vertices: 0, then the ends of as
/// many parts as there are workers.
using Boundaries = std::map<int64_t, std::vector<int64_t>>;

/// How a call walks a graph's edges: row v of it has the places `bounds[v]` up to `bounds[v + 1]`.
struct EdgeWalk {
  OpId op = -1;
  std::shared_ptr<const tdl::Spec> spec;  ///< has the tables
  int row = -1;                           ///< of the Spec's indices
  const tdl::Table* bounds = nullptr;
  const tdl::Table* sources = nullptr;  ///< of the edge at a place; null: nothing is read there
  int64_t width = 1;                    ///< elements that the widest operand has for a source
  int64_t rows() const { return bounds->size() - 1; }
};

/// Of all calls whose structure is known, one for the rows of each.
std::vector<EdgeWalk> edge_walks(const Graph& graph);

/// By walk and worker the rows that a plan has computed there.
std::vector<std::vector<Interval>> walked_rows(const Graph& graph, const Plan& plan,
                                               const std::vector<EdgeWalk>& walks);

/// The same graph whose vertices are cut at boundaries where an operator of messages computes or
/// reads them, and edges where the vertices' do. Throws InternalError where boundaries do not
/// ascend from 0 to the number of vertices.
Graph with_boundaries(Graph graph, const Boundaries& boundaries);

}  // namespace smex
