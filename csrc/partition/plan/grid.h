#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "partition/plan/dim_classes.h"
#include "partition/plan/layout.h"
#include "partition/plan/plan.h"
#include "tdl/spec.h"

namespace smex {

/// The parts that a range is cut into, step by step of a mesh. A worker has the part whose number
/// is the sum of its coordinates times the strides.
struct Pieces {
  std::vector<Interval> parts;
  std::vector<int> strides;  ///< by step; 0 where the step does not cut the range
  /// By part which of its indices count, null for all; empty where no part has a list.
  std::vector<std::shared_ptr<const IndexList>> lists = {};
  /// By part where it is among given ones (see Grain); empty where cuts are even.
  std::vector<Part> given = {};

  /// A range that no step cuts.
  static Pieces whole(Interval range, size_t steps);
  /// Cuts every part once more.
  void cut(size_t step, const Mesh& mesh, int choice, const Grain& grain);
  bool any_empty() const;
  /// Indices of a part.
  int64_t size(size_t part) const {
    return lists.empty() || !lists[part] ? parts[part].size() : lists[part]->size();
  }
};

/// The tiles of all workers of a mesh as a product of dimensions: a Layout without a list of
/// workers, so that what it costs to move is counted without visiting each of them.
struct Grid {
  std::vector<Pieces> dims;
  /// Of indices that are no dimension: a worker whose part of one is empty holds nothing.
  std::vector<Pieces> present;
  /// Of a sum of which workers hold addends: by step how many, 1 where they hold the same. Empty
  /// where no step does.
  std::vector<int> addends;

  Layout layout(const Mesh& mesh) const;
};

/// What the workers do of an op, see OpTiles.
struct OpGrid {
  std::vector<Pieces> indices;               ///< empty for an op that runs whole
  std::vector<std::optional<Grid>> inputs;   ///< nothing where only the shape matters
  std::vector<std::optional<Grid>> outputs;  ///< nothing where nobody uses it
};

/// The grid of a tensor under its choices.
Grid home_grid(const Shape& shape, const std::vector<Grain>& grains, const Choices& choices,
               const Mesh& mesh);

/// Makes the grids of ops; what specs need is derived once.
class OpGrids {
 public:
  OpGrids(const Graph& graph, const DimClasses& classes) : graph_(graph), classes_(classes) {}

  const std::vector<tdl::Split>& splits(const Op& op);
  /// Where the op may compute with addends, see tdl::linear_sets.
  const std::vector<uint64_t>& linear_sets(const Op& op);
  OpGrid make(const Op& op, const Choices& choices, const Mesh& mesh);
  /// What cuts of an index keep to.
  Grain grain(const Op& op, const tdl::Split& split) const;

 private:
  struct Known {
    std::vector<tdl::Split> splits;
    std::vector<std::vector<tdl::NeedSource>> sources;
    std::vector<bool> used;
    std::optional<std::vector<uint64_t>> linear_sets;  ///< once asked for
    /// By input, dimension and the cuts of what decides it.
    std::map<std::vector<int64_t>, Pieces> needs;
    std::vector<tdl::RowPlaces> rows;
  };
  Known& known(const Op& op);
  OpGrid whole(const Op& op, const Choices& choices, const Mesh& mesh) const;
  Pieces need(const tdl::Spec& spec, Known& known, size_t input, size_t dim,
              const std::vector<Pieces>& indices, size_t steps);

  const Graph& graph_;
  const DimClasses& classes_;
  std::map<const tdl::Spec*, Known> known_;
};

/// Elements that relayout moves between workers: relayout_numel of the layouts.
int64_t moved_numel(const Grid& have, const Grid& need, const Mesh& mesh);
/// The same of an op's output on the way to its home, the reduction included: see store_bytes.
/// Nothing where the home has addends that the op does not make.
std::optional<int64_t> stored_numel(const Grid& made, const Grid& home, const Mesh& mesh,
                                    bool weighs = false);
/// The number of a worker's part.
size_t part_of(const Pieces& pieces, const Mesh& mesh, int worker);
/// Elements of a worker's tile, presence not counted.
int64_t numel_of(const Grid& grid, const Mesh& mesh, int worker);
/// Elements of the largest tile.
int64_t largest_numel(const Grid& grid);
/// The same of `home_grid`, which is not made for it.
int64_t largest_home_numel(const Shape& shape, const std::vector<Grain>& grains,
                           const Choices& choices, const Mesh& mesh);

}  // namespace smex
