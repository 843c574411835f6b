#include "partition/price/machine.h"

#include <algorithm>

#include "partition/plan/coarsen.h"
#include "partition/plan/weighting.h"

namespace smex {

namespace {

/// What an op's tiles are, of one worker or the largest.
class TileWork {
 public:
  TileWork(const Graph& graph, const Op& op, const OpGrid& grid)
      : graph_(graph), op_(op), grid_(grid) {}

  CallWork largest() const {
    return work([](const Grid& grid) { return largest_numel(grid); },
                [](const Pieces& pieces) {
                  int64_t largest = 0;
                  for (const Interval& part : pieces.parts) {
                    largest = std::max(largest, part.size());
                  }
                  return largest;
                });
  }

  CallWork of(const Mesh& mesh, int worker) const {
    return work(
        [&](const Grid& grid) { return numel_of(grid, mesh, worker); },
        [&](const Pieces& pieces) { return pieces.parts[part_of(pieces, mesh, worker)].size(); });
  }

 private:
  template <typename Numel, typename Extent>
  CallWork work(const Numel& numel, const Extent& extent) const {
    CallWork work;
    const auto bytes = [&](ValueId id, const std::optional<Grid>& grid) {
      return grid ? static_cast<double>(numel(*grid) * graph_.value(id).itemsize) : 0.0;
    };
    for (size_t i = 0; i < op_.inputs.size(); ++i) {
      work.add_operand(bytes(op_.inputs[i], grid_.inputs[i]));
    }
    for (size_t o = 0; o < op_.outputs.size(); ++o) {
      if (op_.outputs[o] == kNoValue) continue;
      work.add_result(bytes(op_.outputs[o], grid_.outputs[o]),
                      graph_.value(op_.outputs[o]).itemsize);
    }
    if (!op_.spec) return work;
    std::vector<int64_t> extents;
    for (size_t i = 0; i < op_.spec->indices.size(); ++i) {
      extents.push_back(grid_.indices.empty() ? op_.spec->indices[i].extent
                                              : extent(grid_.indices[i]));
    }
    work.operations = tdl::arithmetic(*op_.spec, extents);
    work.gathered = tdl::gathered_bytes(*op_.spec, extents, graph_.input_itemsizes(op_));
    return work;
  }

  const Graph& graph_;
  const Op& op_;
  const OpGrid& grid_;
};

/// Whether the worker computes a part of what makes these outputs.
bool is_active(const OpGrid& grid, const Mesh& mesh, int worker) {
  return std::all_of(grid.outputs.begin(), grid.outputs.end(), [&](const auto& output) {
    return !output ||
           std::all_of(output->present.begin(), output->present.end(), [&](const Pieces& index) {
             return !index.parts[part_of(index, mesh, worker)].empty();
           });
  });
}

}  // namespace

bool Machine::knows_calls() const {
  if (!unlike) return !device.calls.empty();
  return std::any_of(unlike->devices.begin(), unlike->devices.end(),
                     [](const Device& one) { return !one.calls.empty(); });
}

const Link& Machine::link(const Mesh& mesh, int to, int from) const {
  if (unlike) return unlike->links.at(to).at(from);
  return links.at(std::min(first_difference(mesh, to, from), mesh.size() - 1));
}

double Machine::compute(const Graph& graph, const Op& op, const OpGrid& grid, const Mesh& mesh,
                        int workers, const Weighting* weighting) const {
  if (op.spec && is_data_movement(*op.spec)) return 0;  // a view, or part of another op's read
  const TileWork tiles(graph, op, grid);
  const int parts = mesh_size(mesh);
  const std::string kind = knows_calls() ? call_kind(graph, op) : "";
  if (!unlike && !weighting) {
    const double share = static_cast<double>(parts) / workers;
    return share * device.seconds(kind, op.target, tiles.largest());
  }
  const std::vector<double> shares = shares_within_parts(workers, parts, weighting);
  double longest = 0;
  for (int w = 0; w < workers; ++w) {
    const int part = w / (workers / parts);
    if (shares[w] == 0 || !is_active(grid, mesh, part)) continue;
    const Device& on = of(w);
    const double seconds = on.seconds(kind, op.target, tiles.of(mesh, part));
    longest = std::max(longest, shares[w] * seconds);
  }
  return longest;
}

std::vector<double> Machine::whole_seconds(const Graph& graph, int workers) const {
  const DimClasses classes(graph);
  OpGrids grids(graph, classes);
  std::vector<double> seconds(workers, 0);
  for (const Op& op : graph.ops()) {
    if (op.spec && is_data_movement(*op.spec)) continue;
    const CallWork work = TileWork(graph, op, grids.make(op, {}, {})).largest();
    const std::string kind = knows_calls() ? call_kind(graph, op) : "";
    for (int w = 0; w < workers; ++w) seconds[w] += of(w).seconds(kind, op.target, work);
  }
  return seconds;
}

double Machine::transfer(size_t step, double bytes, int workers) const {
  if (bytes <= 0) return 0;
  const Link& link = links.at(step);
  return link.latency + bytes / workers / link.bandwidth;
}

}  // namespace smex
