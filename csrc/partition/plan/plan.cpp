#include "partition/plan/plan.h"

#include <algorithm>
#include <optional>

#include "ir/error.h"
#include "partition/plan/recomputation.h"

namespace smex {

bool runs_whole(const Choices& choices) {
  return std::all_of(choices.begin(), choices.end(),
                     [](int choice) { return choice == kReplicate || is_only(choice); });
}

Tile value_tile(const Shape& shape, const Choices& choices, const Mesh& mesh, int worker,
                const std::vector<Grain>& grains) {
  Tile tile{/*held=*/true, Region::whole(shape), /*partial=*/0};
  std::vector<Part> parts;
  for (size_t d = 0; d < shape.size(); ++d) parts.emplace_back(Interval{0, shape[d]}, grains[d]);
  for (size_t step = 0; step < choices.size(); ++step) {
    const int choice = choices[step];
    if (choice == kReplicate) continue;
    const int coordinate = mesh_coordinate(mesh, worker, static_cast<int>(step));
    if (choice == kPending) {
      tile.addend = tile.addend * mesh[step] + coordinate;
      continue;
    }
    if (is_only(choice)) {
      tile.held = tile.held && coordinate == coordinate_of(choice);
      continue;
    }
    const int dim = cut_of(choice);
    parts.at(dim) = parts[dim].cut(grains[dim], choice, mesh, step, coordinate);
    tile.region.dims[dim] = parts[dim].range();
    if (parts[dim].range().empty()) tile.held = false;
  }
  return tile;
}

Layout home_layout(const Graph& graph, const DimClasses& classes, const Plan& plan, ValueId id) {
  const auto shards = plan.shards.find(id);
  if (shards != plan.shards.end()) return {shards->second};
  const Shape& shape = graph.value(id).shape;
  const std::vector<Grain> grains = classes.grains(id);
  Layout layout;
  for (int w = 0; w < mesh_size(plan.mesh); ++w) {
    layout.tiles.push_back(value_tile(shape, plan.values[id], plan.mesh, w, grains));
  }
  return layout;
}

void keep_shards(const Graph& graph, const std::map<ValueId, std::vector<Tile>>& shards,
                 Plan& plan) {
  for (const auto& [id, tiles] : shards) {
    const Value& value = graph.value(id);
    const bool fits = std::all_of(tiles.begin(), tiles.end(), [&](const Tile& tile) {
      return tile.region.rank() == value.shape.size();
    });
    if (!fits || tiles.size() != static_cast<size_t>(mesh_size(plan.mesh))) {
      throw InternalError("plan: the shards of " + value.name + " do not fit it or the workers");
    }
    plan.shards[id] = tiles;
  }
  for (const GraphOutput& output : graph.outputs()) {
    if (output.value == kNoValue || output.target == kNoValue) continue;
    const auto target = shards.find(output.target);
    // One value may be the gradient of several parameters: it lies as the first one's does.
    if (target != shards.end()) plan.shards.try_emplace(output.value, target->second);
  }
}

namespace {

/// What one worker does of an op.
struct Share {
  bool active = true;  ///< false: it is empty
  tdl::IndexRanges ranges;
  std::vector<int> partials, addends;  ///< by output: the numbers of its tile
};

Share worker_share(const DimClasses& classes, const Plan& plan, const Op& op,
                   const std::vector<tdl::Split>& splits, const Choices& choices, int worker) {
  Share share{true, tdl::full_ranges(*op.spec), std::vector<int>(op.outputs.size(), 0), {}};
  share.addends = share.partials;
  std::vector<std::optional<Part>> index_parts(share.ranges.size());
  for (size_t step = 0; step < choices.size(); ++step) {
    const int choice = choices[step];
    const int parts = plan.mesh[step];
    const int coordinate = mesh_coordinate(plan.mesh, worker, static_cast<int>(step));
    const auto split = std::find_if(splits.begin(), splits.end(), [&](const auto& split) {
      return split.index == cut_of(choice);
    });
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      if (op.outputs[o] == kNoValue) continue;
      const bool adds =
          choice == kPending || (split != splits.end() && split->reduces[o].has_value());
      const bool stays = plan.values[op.outputs[o]][step] == kPending;
      if (stays && !adds) {
        throw InternalError("plan: " + op.target + " does not make the addends of its output " +
                            std::to_string(o) + " in step " + std::to_string(step));
      }
      int& number = stays ? share.addends[o] : share.partials[o];
      if (adds) number = number * parts + coordinate;
    }
    if (is_only(choice)) share.active = share.active && coordinate == coordinate_of(choice);
    if (choice < 0) continue;
    const int index = cut_of(choice);
    Grain grain = classes.grain(op, index);
    if (split != splits.end()) grain = grain.along(split->granule);
    Interval& range = share.ranges[index];
    std::optional<Part>& part = index_parts[index];
    if (!part) part.emplace(range, grain);
    part = part->cut(grain, choice, plan.mesh, step, coordinate);
    range = part->range();
    share.active = share.active && !range.empty();
  }
  share.ranges = tdl::with_rows(*op.spec, std::move(share.ranges));
  return share;
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

/// Whether the worker computes an op that runs whole.
bool runs_at(const Choices& choices, const Mesh& mesh, int worker) {
  for (size_t step = 0; step < choices.size(); ++step) {
    if (is_only(choices[step]) &&
        coordinate_of(choices[step]) != mesh_coordinate(mesh, worker, static_cast<int>(step))) {
      return false;
    }
  }
  return true;
}

void whole_tiles(const Graph& graph, const Op& op, const Choices& choices, const Mesh& mesh,
                 OpTiles& tiles) {
  const int workers = mesh_size(mesh);
  std::vector<tdl::InputNeed> needs;
  for (ValueId input : op.inputs) {
    const Region region = Region::whole(graph.value(input).shape);
    needs.push_back({/*used=*/true, region, region});
  }
  tiles.reduces.assign(op.outputs.size(), tdl::ReduceKind::kSum);
  bool any = false;
  for (int w = 0; w < workers; ++w) {
    // Of what is random every worker would draw other numbers.
    tiles.active.push_back(runs_at(choices, mesh, w) && !(op.random && any));
    any = any || tiles.active.back();
    tiles.needs.push_back(tiles.active.back() ? needs
                                              : std::vector<tdl::InputNeed>(op.inputs.size()));
  }
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

OpTiles op_tiles(const Graph& graph, const DimClasses& classes, const Plan& plan, const Op& op,
                 const Choices& choices) {
  const std::vector<tdl::Split>& splits = classes.splits(op);
  const int workers = mesh_size(plan.mesh);
  OpTiles tiles;
  tiles.whole = runs_whole(choices);
  if (tiles.whole || !op.spec) {
    whole_tiles(graph, op, choices, plan.mesh, tiles);
    return tiles;
  }
  tiles.reduces.assign(op.outputs.size(), tdl::ReduceKind::kSum);
  for (int choice : choices) {
    for (const tdl::Split& split : splits) {
      for (size_t o = 0; split.index == cut_of(choice) && o < op.outputs.size(); ++o) {
        tiles.reduces[o] = split.reduces[o].value_or(tiles.reduces[o]);
      }
    }
  }
  tiles.outputs.resize(op.outputs.size());
  for (size_t o = 0; o < op.outputs.size(); ++o) {
    if (op.outputs[o] != kNoValue) tiles.outputs[o].tiles.resize(workers);
  }
  for (int w = 0; w < workers; ++w) {
    Share share = worker_share(classes, plan, op, splits, choices, w);
    tiles.active.push_back(share.active);
    tiles.needs.push_back(share.active ? tdl::input_needs(*op.spec, share.ranges)
                                       : std::vector<tdl::InputNeed>(op.inputs.size()));
    for (size_t o = 0; share.active && o < op.outputs.size(); ++o) {
      if (op.outputs[o] == kNoValue) continue;
      tiles.outputs[o].tiles[w] = {true,
                                   tdl::output_region(*op.spec, static_cast<int>(o), share.ranges),
                                   share.partials[o], share.addends[o]};
    }
    tiles.ranges.push_back(std::move(share.ranges));
  }
  for (size_t o = 0; o < op.outputs.size(); ++o) {
    if (op.outputs[o] != kNoValue) compact_partials(tiles.outputs[o]);
  }
  return tiles;
}

std::vector<Tile> needed_tiles(const OpTiles& tiles, size_t input, const Layout& home) {
  std::vector<Tile> need(tiles.needs.size());
  for (size_t w = 0; w < need.size(); ++w) {
    if (!tiles.active[w] || !tiles.needs[w][input].used) continue;
    need[w] = {true, tiles.needs[w][input].region, /*partial=*/0, home.tiles[w].addend};
  }
  return need;
}

int64_t fetch_bytes(const Layout& home, const std::vector<Tile>& need, int itemsize) {
  return relayout_numel(home, need) * itemsize;
}

Layout completed(Layout made) {
  made.num_partials = 1;
  for (Tile& tile : made.tiles) tile.partial = 0;
  return made;
}

std::vector<bool> weighing_outputs(const Op& op) {
  std::vector<bool> weighing(op.outputs.size(), false);
  if (!op.spec) return weighing;
  for (int sum : tdl::weight_sums(*op.spec)) {
    if (sum >= 0) weighing[sum] = true;
  }
  return weighing;
}

int64_t store_bytes(const Layout& made, const Layout& home, int itemsize, bool weighs) {
  if (weighs && made.num_partials > 1) {
    const Layout all = completed(made);
    return store_bytes(made, all, itemsize) + store_bytes(all, home, itemsize);
  }
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
  const OpTiles tiles = op_tiles(graph, classes, plan, op, choices);
  int64_t bytes = 0;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const ValueId input = op.inputs[i];
    const Layout home = home_layout(graph, classes, plan, input);
    bytes += fetch_bytes(home, needed_tiles(tiles, i, home), graph.value(input).itemsize);
  }
  const std::vector<bool> weighing = weighing_outputs(op);
  for (size_t o = 0; o < op.outputs.size(); ++o) {
    const ValueId output = op.outputs[o];
    if (output == kNoValue) continue;
    const Layout home = home_layout(graph, classes, plan, output);
    bytes += store_bytes(tiles.outputs[o], home, graph.value(output).itemsize, weighing[o]);
  }
  return bytes;
}

int64_t plan_bytes(const Graph& graph, const Plan& plan) {
  const DimClasses classes(graph);
  int64_t bytes = 0;
  const Recomputation recomputed = recomputation(graph);
  for (const Op& op : graph.ops()) {
    bytes += recomputed.runs(op.id) * op_bytes(graph, classes, plan, op.id);
  }
  return bytes;
}

}  // namespace smex
