#include "partition/vertices/boundaries.h"

#include <algorithm>
#include <utility>

#include "tdl/spec.h"

namespace smex {
namespace {

using Ends = std::shared_ptr<const std::vector<int64_t>>;

/// Which sources' rows are read at a place, and how wide the widest of them are.
struct Sources {
  const tdl::Table* table = nullptr;
  int64_t width = 1;
};

class SourcesAt {
 public:
  SourcesAt(const tdl::Spec& spec, int place) : spec_(spec), place_(place) {
    for (const tdl::Statement& statement : spec.outputs) {
      if (statement.body) visit(*statement.body);
    }
  }
  Sources found;

 private:
  void visit(const tdl::Expr& expr) {
    if (expr.kind == tdl::ExprKind::kRead && !expr.args.empty()) read(expr, *expr.args[0]);
    for (const tdl::ExprPtr& arg : expr.args) visit(*arg);
  }

  void read(const tdl::Expr& expr, const tdl::Expr& row) {
    const tdl::Table* table = row.kind == tdl::ExprKind::kRead ? spec_.table(row.input) : nullptr;
    if (!table || row.args[0]->index != place_) return;
    int64_t width = 1;
    const Shape& shape = spec_.input_shapes[expr.input];
    for (size_t d = 1; d < shape.size(); ++d) width *= shape[d];
    if (!found.table || width > found.width) found = {table, width};
  }

  const tdl::Spec& spec_;
  const int place_;
};

/// The ends of vertices, and of the edges of theirs in a structure; each list once.
class EndsOfParts {
 public:
  explicit EndsOfParts(const Boundaries& boundaries) {
    for (const auto& [size, ends] : boundaries) {
      vertices_[size] = std::make_shared<const std::vector<int64_t>>(ends);
    }
  }

  /// Null where none are given.
  Ends of_vertices(int64_t size) const {
    const auto found = vertices_.find(size);
    return found == vertices_.end() ? nullptr : found->second;
  }

  /// Null where rows have not all of so many places.
  Ends of_edges(const tdl::Table& bounds, int64_t places) {
    const auto [known, fresh] = edges_.try_emplace(&bounds);
    Ends& ends = known->second;
    if (!fresh || bounds[0] != 0 || bounds[bounds.size() - 1] != places) return ends;
    std::vector<int64_t> found;
    for (int64_t end : *of_vertices(bounds.size() - 1)) found.push_back(bounds[end]);
    ends = std::make_shared<const std::vector<int64_t>>(std::move(found));
    return ends;
  }

 private:
  std::map<int64_t, Ends> vertices_;
  std::map<const tdl::Table*, Ends> edges_;
};

}  // namespace

std::vector<EdgeWalk> edge_walks(const Graph& graph) {
  std::vector<EdgeWalk> walks;
  for (const Op& op : graph.ops()) {
    if (!op.spec) continue;
    for (const tdl::RowPlaces& rows : tdl::row_places(*op.spec)) {
      const Sources sources = SourcesAt(*op.spec, rows.place).found;
      const EdgeWalk walk{op.id, op.spec, rows.row, rows.bounds, sources.table, sources.width};
      // A mean counts the places that its sum is over once more.
      const auto known = std::find_if(walks.begin(), walks.end(), [&](const EdgeWalk& other) {
        return other.op == op.id && other.row == rows.row && other.bounds == rows.bounds;
      });
      if (known == walks.end()) {
        walks.push_back(walk);
      } else if (!known->sources) {
        *known = walk;
      }
    }
  }
  return walks;
}

std::vector<std::vector<Interval>> walked_rows(const Graph& graph, const Plan& plan,
                                               const std::vector<EdgeWalk>& walks) {
  const DimClasses classes(graph);
  std::vector<std::vector<Interval>> found;
  for (const EdgeWalk& walk : walks) {
    const Op& op = graph.op(walk.op);
    const OpTiles tiles = op_tiles(graph, classes, plan, op, plan.ops[op.id]);
    std::vector<Interval>& rows = found.emplace_back();
    for (size_t worker = 0; worker < tiles.ranges.size(); ++worker) {
      const bool active = tiles.active.empty() || tiles.active[worker];
      rows.push_back(active ? tiles.ranges[worker][walk.row] : Interval{0, 0});
    }
  }
  return found;
}

Graph with_boundaries(Graph graph, const Boundaries& boundaries) {
  EndsOfParts ends(boundaries);
  std::vector<GivenParts> found;
  const auto give = [&](ValueId value, size_t dim, const Ends& given) {
    if (value != kNoValue && given) found.push_back({value, dim, given});
  };
  for (const Op& op : graph.ops()) {
    if (!op.spec) continue;
    const tdl::Spec& spec = *op.spec;
    for (const tdl::RowPlaces& rows : tdl::row_places(spec)) {
      const Ends vertices = ends.of_vertices(spec.indices[rows.row].extent);
      if (!vertices) continue;
      const Ends edges = ends.of_edges(*rows.bounds, spec.indices[rows.place].extent);
      const auto along = [&](int index) -> Ends {
        return index == rows.row ? vertices : index == rows.place ? edges : nullptr;
      };
      for (size_t o = 0; o < spec.outputs.size(); ++o) {
        const std::vector<int>& axes = spec.outputs[o].axes;
        for (size_t d = 0; d < axes.size(); ++d) give(op.outputs[o], d, along(axes[d]));
      }
      const auto sources = tdl::need_sources(spec);
      for (size_t i = 0; i < sources.size(); ++i) {
        for (size_t d = 0; d < sources[i].size(); ++d) {
          const tdl::NeedSource& source = sources[i][d];
          if (source.plain) {
            give(op.inputs[i], d, along(source.indices.front()));
          } else if (std::count(source.indices.begin(), source.indices.end(), rows.place)) {
            give(op.inputs[i], d, ends.of_vertices(spec.input_shapes[i][d]));
          }
        }
      }
    }
  }
  graph.give_parts(std::move(found));
  return graph;
}

}  // namespace smex
