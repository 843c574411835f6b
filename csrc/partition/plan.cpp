#include "partition/plan.h"

#include <algorithm>
#include <numeric>

namespace smex {

int mesh_size(const Mesh& mesh) {
  return std::accumulate(mesh.begin(), mesh.end(), 1, std::multiplies<>());
}

int mesh_coordinate(const Mesh& mesh, int worker, int step) {
  for (int s = static_cast<int>(mesh.size()) - 1; s > step; --s) worker /= mesh[s];
  return worker % mesh[step];
}

Tile value_tile(const Shape& shape, const Choices& choices, const Mesh& mesh, int worker,
                const std::vector<int64_t>& granules) {
  Tile tile{/*held=*/true, Region::whole(shape), /*partial=*/0};
  for (size_t step = 0; step < choices.size(); ++step) {
    const int dim = choices[step];
    if (dim == kReplicate) continue;
    Interval& range = tile.region.dims.at(dim);
    range = cut(range, mesh[step], mesh_coordinate(mesh, worker, static_cast<int>(step)),
                granules[dim]);
    if (range.empty()) tile.held = false;
  }
  return tile;
}

Layout home_layout(const Graph& graph, const DimClasses& classes, const Mesh& mesh, ValueId id,
                   const Choices& choices) {
  const Shape& shape = graph.value(id).shape;
  const std::vector<int64_t> granules = classes.granules(id);
  Layout layout;
  for (int w = 0; w < mesh_size(mesh); ++w) {
    layout.tiles.push_back(value_tile(shape, choices, mesh, w, granules));
  }
  return layout;
}

namespace {

/// The op's share of one worker under the choices; false when it is empty.
bool worker_ranges(const DimClasses& classes, const Op& op, const std::vector<tdl::Split>& splits,
                   const Choices& choices, const Mesh& mesh, int worker, tdl::IndexRanges& ranges,
                   std::vector<int>& partials) {
  for (size_t step = 0; step < choices.size(); ++step) {
    const int index = choices[step];
    if (index == kReplicate) continue;
    int64_t granule = classes.granule(op, index);
    const tdl::Split* chosen = nullptr;
    for (const tdl::Split& split : splits) {
      if (split.index != index) continue;
      granule = std::lcm(granule, split.granule);
      chosen = &split;
    }
    const int coordinate = mesh_coordinate(mesh, worker, static_cast<int>(step));
    ranges[index] = cut(ranges[index], mesh[step], coordinate, granule);
    for (size_t o = 0; chosen && o < partials.size(); ++o) {
      if (chosen->reduces[o]) partials[o] = partials[o] * mesh[step] + coordinate;
    }
    if (ranges[index].empty()) return false;
  }
  return true;
}

/// Renumbers the partials that occur to 0, 1, 2 … in their order.
void compact_partials(Layout& layout) {
  int largest = 0;
  for (const Tile& tile : layout.tiles) largest = std::max(largest, tile.partial);
  std::vector<int> number(largest + 1, -1);
  for (const Tile& tile : layout.tiles) {
    if (tile.held) number[tile.partial] = 0;
  }
  int next = 0;
  for (int& n : number) {
    if (n == 0) n = next++;
  }
  for (Tile& tile : layout.tiles) tile.partial = tile.held ? number[tile.partial] : 0;
  layout.num_partials = std::max(next, 1);
}

void whole_tiles(const Graph& graph, const Op& op, int workers, OpTiles& tiles) {
  std::vector<tdl::InputNeed> needs;
  for (ValueId input : op.inputs) {
    const Region region = Region::whole(graph.value(input).shape);
    needs.push_back({/*used=*/true, region, region});
  }
  // Every worker would draw other numbers.
  tiles.reduces.assign(op.outputs.size(), tdl::ReduceKind::kSum);
  tiles.active.assign(workers, !op.random);
  tiles.active.front() = true;
  tiles.needs.assign(workers, needs);
  tiles.ranges.assign(workers, op.spec ? tdl::full_ranges(*op.spec) : tdl::IndexRanges{});
  for (ValueId output : op.outputs) {
    Layout layout;
    if (output != kNoValue) {
      for (int w = 0; w < workers; ++w) {
        layout.tiles.push_back({tiles.active[w], Region::whole(graph.value(output).shape), 0});
      }
    }
    tiles.outputs.push_back(std::move(layout));
  }
}

}  // namespace

OpTiles op_tiles(const Graph& graph, const DimClasses& classes, const Op& op,
                 const std::vector<tdl::Split>& splits, const Choices& choices, const Mesh& mesh) {
  const int workers = mesh_size(mesh);
  OpTiles tiles;
  for (int choice : choices) tiles.whole = tiles.whole && choice == kReplicate;
  if (tiles.whole || !op.spec) {
    whole_tiles(graph, op, workers, tiles);
    return tiles;
  }
  tiles.reduces.assign(op.outputs.size(), tdl::ReduceKind::kSum);
  for (int choice : choices) {
    for (const tdl::Split& split : splits) {
      for (size_t o = 0; split.index == choice && o < op.outputs.size(); ++o) {
        tiles.reduces[o] = split.reduces[o].value_or(tiles.reduces[o]);
      }
    }
  }
  tiles.outputs.resize(op.outputs.size());
  for (size_t o = 0; o < op.outputs.size(); ++o) {
    if (op.outputs[o] != kNoValue) tiles.outputs[o].tiles.resize(workers);
  }
  for (int w = 0; w < workers; ++w) {
    tdl::IndexRanges ranges = tdl::full_ranges(*op.spec);
    std::vector<int> partials(op.outputs.size(), 0);
    const bool active = worker_ranges(classes, op, splits, choices, mesh, w, ranges, partials);
    tiles.active.push_back(active);
    tiles.needs.push_back(active ? tdl::input_needs(*op.spec, ranges)
                                 : std::vector<tdl::InputNeed>(op.inputs.size()));
    for (size_t o = 0; active && o < op.outputs.size(); ++o) {
      if (op.outputs[o] == kNoValue) continue;
      tiles.outputs[o].tiles[w] = {true, tdl::output_region(*op.spec, static_cast<int>(o), ranges),
                                   partials[o]};
    }
    tiles.ranges.push_back(std::move(ranges));
  }
  for (size_t o = 0; o < op.outputs.size(); ++o) {
    if (op.outputs[o] != kNoValue) compact_partials(tiles.outputs[o]);
  }
  return tiles;
}

std::vector<Tile> needed_tiles(const OpTiles& tiles, size_t input) {
  std::vector<Tile> need(tiles.needs.size());
  for (size_t w = 0; w < need.size(); ++w) {
    if (!tiles.active[w] || !tiles.needs[w][input].used) continue;
    need[w] = {true, tiles.needs[w][input].region, 0};
  }
  return need;
}

int64_t fetch_bytes(const Layout& home, const std::vector<Tile>& need, int itemsize) {
  return relayout_numel(home, need) * itemsize;
}

int64_t store_bytes(const Layout& made, const Layout& home, int itemsize) {
  const std::vector<Tile> stage = scatter_stage(made, home.tiles);
  int64_t moved = relayout_numel(made, stage);
  if (made.num_partials > 1) moved += relayout_numel({stage, 1}, home.tiles);
  return moved * itemsize;
}

int64_t op_bytes(const Graph& graph, const DimClasses& classes, const Plan& plan, OpId id) {
  return op_bytes(graph, classes, plan, graph.op(id), plan.ops[id]);
}

int64_t op_bytes(const Graph& graph, const DimClasses& classes, const Plan& plan, const Op& op,
                 const Choices& choices) {
  const auto splits = op.spec ? tdl::derive_splits(*op.spec) : std::vector<tdl::Split>{};
  const OpTiles tiles = op_tiles(graph, classes, op, splits, choices, plan.mesh);
  int64_t bytes = 0;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const ValueId input = op.inputs[i];
    const Layout home = home_layout(graph, classes, plan.mesh, input, plan.values[input]);
    bytes += fetch_bytes(home, needed_tiles(tiles, i), graph.value(input).itemsize);
  }
  for (size_t o = 0; o < op.outputs.size(); ++o) {
    const ValueId output = op.outputs[o];
    if (output == kNoValue) continue;
    const Layout home = home_layout(graph, classes, plan.mesh, output, plan.values[output]);
    bytes += store_bytes(tiles.outputs[o], home, graph.value(output).itemsize);
  }
  return bytes;
}

int64_t plan_bytes(const Graph& graph, const Plan& plan) {
  const DimClasses classes(graph);
  int64_t bytes = 0;
  for (const Op& op : graph.ops()) bytes += op_bytes(graph, classes, plan, op.id);
  return bytes;
}

}  // namespace smex
