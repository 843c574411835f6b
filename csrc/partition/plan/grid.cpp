#include "partition/plan/grid.h"

#include <algorithm>
#include <utility>

#include "partition/plan/weighting.h"

namespace smex {

Pieces Pieces::whole(Interval range, size_t steps) { return {{range}, std::vector<int>(steps, 0)}; }

void Pieces::cut(size_t step, const Mesh& mesh, int choice, const Grain& grain) {
  const int count = mesh[step];
  std::vector<Interval> finer;
  finer.reserve(parts.size() * count);
  if (grain.bounds) {
    if (given.empty()) given.emplace_back(parts.front(), grain);
    std::vector<Part> finer_given;
    for (const Part& part : given) {
      for (int n = 0; n < count; ++n) {
        const Part& piece = finer_given.emplace_back(part.cut(grain, choice, mesh, step, n));
        finer.push_back(piece.range());
      }
    }
    given = std::move(finer_given);
  } else if (const Weighting* const weighting = grain.weighting(choice)) {
    std::vector<int> coordinates(mesh.size(), -1);
    for (size_t number = 0; number < parts.size(); ++number) {
      for (size_t s = 0; s < strides.size(); ++s) {
        if (strides[s] > 0) coordinates[s] = static_cast<int>(number) / strides[s] % mesh[s];
      }
      const auto shares = shares_of_parts(*weighting, mesh, coordinates, step);
      for (const Interval& piece : cut_by_shares(parts[number], shares, grain.unit)) {
        finer.push_back(piece);
      }
    }
  } else {
    for (const Interval& part : parts) {
      for (int n = 0; n < count; ++n) finer.push_back(smex::cut(part, count, n, grain.unit));
    }
  }
  parts = std::move(finer);
  for (int& stride : strides) stride *= count;
  strides[step] = 1;
}

bool Pieces::any_empty() const {
  return std::any_of(parts.begin(), parts.end(), [](const Interval& p) { return p.empty(); });
}

namespace {

/// What one dimension contributes to a worker's count of elements.
struct Factor {
  const Pieces* pieces = nullptr;
  const Pieces* other = nullptr;  ///< where given, the part that both have
  bool counts_once = false;       ///< 1 where there is something

  int64_t value(int part, int other_part) const {
    if (!other) return counts_once ? !pieces->parts[part].empty() : pieces->size(part);
    const Interval both = intersect(pieces->parts[part], other->parts[other_part]);
    const bool is_listed = !pieces->lists.empty() && pieces->lists[part];
    return is_listed ? pieces->lists[part]->count(both) : both.size();
  }
  uint64_t steps() const {
    uint64_t mask = 0;
    for (size_t s = 0; s < pieces->strides.size(); ++s) {
      const bool moves = pieces->strides[s] != 0 || (other && other->strides[s] != 0);
      if (moves) mask |= uint64_t{1} << s;
    }
    return mask;
  }
};

/// Factors that share steps, and no step with any other.
struct Component {
  uint64_t steps = 0;
  std::vector<Factor> factors;
};

/// Σ over the coordinates of the component's steps of the product of its factors.
class ComponentSum {
 public:
  ComponentSum(const Mesh& mesh, const Component& component)
      : mesh_(mesh), component_(component), part_(component.factors.size(), 0), other_(part_) {
    for (size_t s = 0; s < mesh.size(); ++s) {
      if (component.steps >> s & 1) steps_.push_back(s);
    }
  }

  int64_t take() {
    if (component_.factors.size() == 1) {
      const Factor& only = component_.factors.front();
      if (!only.other || only.other->strides == only.pieces->strides) {
        int64_t sum = 0;
        for (size_t n = 0; n < only.pieces->parts.size(); ++n) {
          sum += only.value(static_cast<int>(n), static_cast<int>(n));
        }
        return sum;
      }
    }
    return below(0);
  }

 private:
  int64_t below(size_t depth) {
    if (depth == steps_.size()) {
      int64_t product = 1;
      for (size_t f = 0; f < part_.size() && product != 0; ++f) {
        product *= component_.factors[f].value(part_[f], other_[f]);
      }
      return product;
    }
    const size_t step = steps_[depth];
    int64_t sum = 0;
    for (int coordinate = 0; coordinate < mesh_[step]; ++coordinate) {
      sum += below(depth + 1);
      move(step, 1);
    }
    move(step, -mesh_[step]);
    return sum;
  }

  void move(size_t step, int by) {
    for (size_t f = 0; f < part_.size(); ++f) {
      const Factor& factor = component_.factors[f];
      part_[f] += by * factor.pieces->strides[step];
      if (factor.other) other_[f] += by * factor.other->strides[step];
    }
  }

  const Mesh& mesh_;
  const Component& component_;
  std::vector<int> part_, other_;
  std::vector<size_t> steps_;
};

/// Σ over the workers of a product. Factors that depend on different steps are summed apart.
int64_t sum_over_workers(const Mesh& mesh, const std::vector<Factor>& factors) {
  int64_t result = 1;
  uint64_t free = (uint64_t{1} << mesh.size()) - 1;
  std::vector<Component> components;
  for (const Factor& factor : factors) {
    Component joined{factor.steps(), {factor}};
    if (joined.steps == 0) {
      result *= factor.value(0, 0);
      continue;
    }
    free &= ~joined.steps;
    std::erase_if(components, [&](const Component& component) {
      if ((component.steps & joined.steps) == 0) return false;
      joined.steps |= component.steps;
      joined.factors.insert(joined.factors.end(), component.factors.begin(),
                            component.factors.end());
      return true;
    });
    components.push_back(std::move(joined));
  }
  for (size_t s = 0; s < mesh.size(); ++s) {
    if (free >> s & 1) result *= mesh[s];
  }
  for (const Component& component : components) {
    if (result == 0) return 0;
    result *= ComponentSum(mesh, component).take();
  }
  return result;
}

void add_presence(const Grid& grid, std::vector<Factor>& factors) {
  for (const Pieces& index : grid.present) factors.push_back({&index, nullptr, true});
}

/// Into how many addends a step divides the sum.
int addends_of(const Grid& grid, size_t step) {
  return grid.addends.empty() ? 1 : grid.addends[step];
}

/// The workers that have equal tiles, as factors of the mesh; 1 where all tiles differ.
int replicas(const Grid& grid, const Mesh& mesh, std::vector<size_t>& steps) {
  int count = 1;
  for (size_t s = 0; s < mesh.size(); ++s) {
    const bool cuts = std::any_of(grid.dims.begin(), grid.dims.end(),
                                  [&](const Pieces& dim) { return dim.strides[s] != 0; });
    if (cuts || mesh[s] == 1 || addends_of(grid, s) > 1) continue;
    steps.push_back(s);
    count *= mesh[s];
  }
  return count;
}

/// Least and greatest size of the parts that are not empty.
std::pair<int64_t, int64_t> sizes(const Pieces& pieces) {
  int64_t least = INT64_MAX, greatest = 0;
  for (size_t n = 0; n < pieces.parts.size(); ++n) {
    const int64_t size = pieces.size(n);
    if (size == 0) continue;
    least = std::min(least, size);
    greatest = std::max(greatest, size);
  }
  return {least, greatest};
}

/// The dimension that is the longest, the first of equals, of every tile; nothing where tiles
/// differ in that.
std::optional<size_t> longest_everywhere(const Grid& grid) {
  size_t longest = 0;
  for (size_t d = 1; d < grid.dims.size(); ++d) {
    if (sizes(grid.dims[d]).second > sizes(grid.dims[longest]).second) longest = d;
  }
  const int64_t least = sizes(grid.dims[longest]).first;
  for (size_t d = 0; d < grid.dims.size(); ++d) {
    const int64_t greatest = sizes(grid.dims[d]).second;
    if (d != longest && (d < longest ? greatest >= least : greatest > least)) return std::nullopt;
  }
  return longest;
}

}  // namespace

Layout Grid::layout(const Mesh& mesh) const {
  Layout layout;
  for (int w = 0; w < mesh_size(mesh); ++w) {
    const auto number = [&](const Pieces& pieces) { return part_of(pieces, mesh, w); };
    Tile tile{/*held=*/true, {}, /*partial=*/0};
    for (const Pieces& dim : dims) {
      const size_t part = number(dim);
      if (!dim.lists.empty() && dim.lists[part]) {
        tile.region.axis = static_cast<int>(tile.region.rank());
        tile.region.list = dim.lists[part];
      }
      tile.region.dims.push_back(dim.parts[part]);
      tile.held = tile.held && !tile.region.dims.back().empty();
    }
    for (const Pieces& index : present) {
      tile.held = tile.held && !index.parts[number(index)].empty();
    }
    for (size_t s = 0; s < addends.size(); ++s) {
      if (addends[s] == 1) continue;
      tile.addend = tile.addend * addends[s] + mesh_coordinate(mesh, w, static_cast<int>(s));
    }
    layout.tiles.push_back(std::move(tile));
  }
  return layout;
}

namespace {

/// Of choices of which some are for one coordinate only the workers that have all of these.
std::optional<Pieces> only_some(const Choices& choices, const Mesh& mesh) {
  Pieces workers = Pieces::whole({0, 1}, mesh.size());
  for (size_t s = 0; s < choices.size(); ++s) {
    if (!is_only(choices[s])) continue;
    std::vector<Interval> finer;
    for (const Interval& part : workers.parts) {
      for (int n = 0; n < mesh[s]; ++n) {
        finer.push_back(n == coordinate_of(choices[s]) ? part : Interval{0, 0});
      }
    }
    workers.parts = std::move(finer);
    for (int& stride : workers.strides) stride *= mesh[s];
    workers.strides[s] = 1;
  }
  if (workers.parts.size() == 1) return std::nullopt;
  return workers;
}

}  // namespace

Grid home_grid(const Shape& shape, const std::vector<Grain>& grains, const Choices& choices,
               const Mesh& mesh) {
  Grid grid;
  for (int64_t size : shape) grid.dims.push_back(Pieces::whole({0, size}, mesh.size()));
  for (size_t s = 0; s < choices.size(); ++s) {
    const int choice = choices[s];
    if (choice == kPending) {
      grid.addends.resize(mesh.size(), 1);
      grid.addends[s] = mesh[s];
    } else if (choice >= 0) {
      grid.dims[cut_of(choice)].cut(s, mesh, choice, grains[cut_of(choice)]);
    }
  }
  if (auto workers = only_some(choices, mesh)) grid.present.push_back(std::move(*workers));
  return grid;
}

OpGrids::Known& OpGrids::known(const Op& op) {
  const auto [it, fresh] = known_.try_emplace(op.spec.get());
  Known& known = it->second;
  if (fresh && op.spec) {
    known.splits = tdl::derive_splits(*op.spec);
    known.sources = tdl::need_sources(*op.spec);
    known.rows = tdl::row_places(*op.spec);
    for (const auto& need : tdl::input_needs(*op.spec, tdl::full_ranges(*op.spec))) {
      known.used.push_back(need.used);
    }
  }
  return known;
}

const std::vector<tdl::Split>& OpGrids::splits(const Op& op) { return known(op).splits; }

const std::vector<uint64_t>& OpGrids::linear_sets(const Op& op) {
  auto& sets = known(op).linear_sets;
  if (!sets) sets = op.spec ? tdl::linear_sets(*op.spec) : std::vector<uint64_t>{};
  return *sets;
}

Grain OpGrids::grain(const Op& op, const tdl::Split& split) const {
  return classes_.grain(op, split.index).along(split.granule);
}

OpGrid OpGrids::whole(const Op& op, const Choices& choices, const Mesh& mesh) const {
  Choices where(mesh.size(), kReplicate);
  for (size_t s = 0; s < mesh.size(); ++s) {
    // Of what is random every worker would draw other numbers.
    if (s < choices.size() && is_only(choices[s])) {
      where[s] = choices[s];
    } else if (op.random) {
      where[s] = only_at(0);
    }
  }
  const auto grid = [&](ValueId id) { return home_grid(graph_.value(id).shape, {}, where, mesh); };
  OpGrid result;
  for (ValueId input : op.inputs) result.inputs.emplace_back(grid(input));
  for (ValueId output : op.outputs) {
    result.outputs.push_back(output == kNoValue ? std::nullopt : std::optional(grid(output)));
  }
  return result;
}

Pieces OpGrids::need(const tdl::Spec& spec, Known& known, size_t input, size_t dim,
                     const std::vector<Pieces>& indices, size_t steps) {
  const tdl::NeedSource& source = known.sources[input][dim];
  if (source.plain) return indices[source.indices.front()];
  // Numbered by the parts of all the indices together.
  Pieces result = Pieces::whole({0, spec.input_shapes[input][dim]}, steps);
  size_t count = 1;
  std::vector<int64_t> key{static_cast<int64_t>(input), static_cast<int64_t>(dim)};
  for (int index : source.indices) {
    const Pieces& pieces = indices[index];
    for (size_t s = 0; s < steps; ++s) {
      result.strides[s] += static_cast<int>(count) * pieces.strides[s];
    }
    count *= pieces.parts.size();
    key.push_back(static_cast<int64_t>(pieces.parts.size()));
    for (const Interval& part : pieces.parts) {
      key.push_back(part.lo);
      key.push_back(part.hi);
    }
  }
  auto [it, fresh] = known.needs.try_emplace(std::move(key));
  Pieces& found = it->second;
  if (fresh) {
    tdl::IndexRanges ranges = tdl::full_ranges(spec);
    for (size_t number = 0; number < count; ++number) {
      size_t rest = number;
      for (int index : source.indices) {
        ranges[index] = indices[index].parts[rest % indices[index].parts.size()];
        rest /= indices[index].parts.size();
      }
      const Region region = tdl::input_needs(spec, ranges)[input].region;
      found.parts.push_back(region.dims[dim]);
      if (!region.is_listed(dim)) continue;
      found.lists.resize(count);
      found.lists[number] = region.list;
    }
  }
  result.parts = found.parts;
  result.lists = found.lists;
  return result;
}

namespace {

/// By step the addends that output `o` is made in; an index of which some parts are empty is
/// counted at the first step that splits it.
std::vector<int> addends(const Choices& choices, const std::vector<const tdl::Split*>& chosen,
                         const std::vector<Pieces>& indices, size_t o, const Mesh& mesh) {
  std::vector<int> counts(mesh.size(), 1);
  std::vector<bool> counted(indices.size(), false);
  for (size_t s = 0; s < choices.size(); ++s) {
    const int choice = choices[s];
    if (choice == kPending) counts[s] = mesh[s];
    const int cut = cut_of(choice);
    if (cut < 0 || !chosen[cut] || !chosen[cut]->reduces[o]) continue;
    const Pieces& index = indices[cut];
    if (!index.any_empty()) {
      counts[s] = mesh[s];
    } else if (!counted[cut]) {
      const auto parts = std::count_if(index.parts.begin(), index.parts.end(),
                                       [](const Interval& part) { return !part.empty(); });
      counts[s] = std::max(static_cast<int>(parts), 1);
      counted[cut] = true;
    }
  }
  return counts;
}

/// Leaves of the places of rows those of each worker's rows.
void narrow(const tdl::RowPlaces& rows, std::vector<Pieces>& indices) {
  const Pieces& row = indices[rows.row];
  if (rows.rows_follow) {
    const Interval all = row.parts.front();
    indices[rows.row] = indices[rows.place];
    for (Interval& part : indices[rows.row].parts) part = rows.rows_of(all, part);
    return;
  }
  if (row.parts.size() == 1) return;
  const Pieces all = indices[rows.place];
  Pieces& narrowed = indices[rows.place];
  narrowed.parts.clear();
  for (const Interval& part : row.parts) {
    for (const Interval& places : all.parts) {
      narrowed.parts.push_back(intersect(places, rows.of(part)));
    }
  }
  for (size_t s = 0; s < narrowed.strides.size(); ++s) {
    narrowed.strides[s] += static_cast<int>(all.parts.size()) * row.strides[s];
  }
}

}  // namespace

OpGrid OpGrids::make(const Op& op, const Choices& choices, const Mesh& mesh) {
  if (!op.spec || runs_whole(choices)) return whole(op, choices, mesh);
  Known& known = this->known(op);
  const tdl::Spec& spec = *op.spec;
  OpGrid result;
  for (const tdl::Index& index : spec.indices) {
    result.indices.push_back(Pieces::whole({0, index.extent}, mesh.size()));
  }
  std::vector<const tdl::Split*> chosen(spec.indices.size(), nullptr);
  for (size_t s = 0; s < choices.size(); ++s) {
    const int index = cut_of(choices[s]);
    if (index < 0) continue;
    const auto split = std::find_if(known.splits.begin(), known.splits.end(),
                                    [&](const tdl::Split& split) { return split.index == index; });
    const bool is_split = split != known.splits.end();
    const Grain grain = is_split ? this->grain(op, *split) : classes_.grain(op, index);
    result.indices[index].cut(s, mesh, choices[s], grain);
    chosen[index] = is_split ? &*split : nullptr;
  }
  std::vector<Pieces> present;
  for (const Pieces& index : result.indices) {
    if (index.parts.size() > 1 && index.any_empty()) present.push_back(index);
  }
  if (auto workers = only_some(choices, mesh)) present.push_back(std::move(*workers));
  // By output; of the cuts as they are, before rows narrow them.
  std::vector<std::vector<int>> sums(op.outputs.size());
  for (size_t o = 0; o < op.outputs.size(); ++o) {
    if (op.outputs[o] != kNoValue) sums[o] = addends(choices, chosen, result.indices, o, mesh);
  }
  for (const tdl::RowPlaces& rows : known.rows) narrow(rows, result.indices);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    auto& input = result.inputs.emplace_back();
    if (!known.used[i]) continue;
    input.emplace();
    for (size_t d = 0; d < spec.input_shapes[i].size(); ++d) {
      input->dims.push_back(need(spec, known, i, d, result.indices, mesh.size()));
    }
    input->present = present;
  }
  for (size_t o = 0; o < op.outputs.size(); ++o) {
    auto& output = result.outputs.emplace_back();
    if (op.outputs[o] == kNoValue) continue;
    output.emplace();
    for (int axis : spec.outputs[o].axes) output->dims.push_back(result.indices[axis]);
    output->present = present;
    output->addends = std::move(sums[o]);
  }
  return result;
}

namespace {

/// Elements that move when each of `partials` addends of `have` is needed.
int64_t moved_numel(const Grid& have, const Grid& need, const Mesh& mesh, int partials) {
  std::vector<Factor> wanted, both;
  for (size_t d = 0; d < need.dims.size(); ++d) {
    wanted.push_back({&need.dims[d], nullptr, false});
    both.push_back({&need.dims[d], &have.dims[d], false});
  }
  add_presence(need, wanted);
  both.insert(both.end(), wanted.begin() + static_cast<std::ptrdiff_t>(need.dims.size()),
              wanted.end());
  add_presence(have, both);
  return sum_over_workers(mesh, wanted) * partials - sum_over_workers(mesh, both);
}

}  // namespace

int64_t moved_numel(const Grid& have, const Grid& need, const Mesh& mesh) {
  return moved_numel(have, need, mesh, /*partials=*/1);
}

std::optional<int64_t> stored_numel(const Grid& made, const Grid& home, const Mesh& mesh,
                                    bool weighs) {
  if (weighs) {
    Grid all = made;
    all.addends.clear();
    const std::optional<int64_t> stored = stored_numel(all, home, mesh);
    if (!stored) return std::nullopt;
    return *stored + *stored_numel(made, all, mesh);
  }
  int partials = 1;
  for (size_t s = 0; s < mesh.size(); ++s) {
    const int here = addends_of(made, s), stay = addends_of(home, s);
    if (stay > 1 && here != stay) return std::nullopt;
    partials *= here / stay;
  }
  std::vector<size_t> steps;
  const int copies = partials > 1 ? replicas(home, mesh, steps) : 1;
  if (copies == 1 || home.dims.empty()) return moved_numel(made, home, mesh, partials);
  const auto longest = longest_everywhere(home);
  if (!longest || !home.present.empty()) {
    Layout from = made.layout(mesh);
    const Layout to = home.layout(mesh);
    from.num_partials = partials;
    const std::vector<Tile> stage = scatter_stage(from, to.tiles);
    return relayout_numel(from, stage) + relayout_numel({stage, 1}, to.tiles);
  }
  if (sizes(home.dims[*longest]).first < copies) return moved_numel(made, home, mesh, partials);
  Grid stage = home;
  Pieces& dim = stage.dims[*longest];
  std::vector<Interval> finer;
  for (const Interval& part : dim.parts) {
    for (int n = 0; n < copies; ++n) finer.push_back(cut(part, copies, n, /*granule=*/1));
  }
  dim.parts = std::move(finer);
  for (int& stride : dim.strides) stride *= copies;
  int stride = 1;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    dim.strides[*step] = stride;
    stride *= mesh[*step];
  }
  return moved_numel(made, stage, mesh, partials) + moved_numel(stage, home, mesh);
}

size_t part_of(const Pieces& pieces, const Mesh& mesh, int worker) {
  int number = 0;
  for (size_t s = 0; s < mesh.size(); ++s) {
    if (pieces.strides[s] == 0) continue;
    number += mesh_coordinate(mesh, worker, static_cast<int>(s)) * pieces.strides[s];
  }
  return static_cast<size_t>(number);
}

int64_t numel_of(const Grid& grid, const Mesh& mesh, int worker) {
  int64_t numel = 1;
  for (const Pieces& dim : grid.dims) numel *= dim.size(part_of(dim, mesh, worker));
  return numel;
}

int64_t largest_numel(const Grid& grid) {
  int64_t numel = 1;
  for (const Pieces& dim : grid.dims) numel *= sizes(dim).second;
  return numel;
}

int64_t largest_home_numel(const Shape& shape, const std::vector<Grain>& grains,
                           const Choices& choices, const Mesh& mesh) {
  int64_t numel = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    // All parts are of whole units, so that the largest one has the largest parts.
    const int64_t unit = grains[d].unit;
    if (shape[d] % unit != 0 || grains[d].bounds) {
      return largest_numel(home_grid(shape, grains, choices, mesh));
    }
    int64_t units = shape[d] / unit;
    for (size_t s = 0; s < choices.size(); ++s) {
      if (cut_of(choices[s]) != static_cast<int>(d)) continue;
      if (weighting_of(choices[s]) != 0) {
        return largest_numel(home_grid(shape, grains, choices, mesh));
      }
      units = (units + mesh[s] - 1) / mesh[s];
    }
    numel *= units * unit;
  }
  return numel;
}

}  // namespace smex
