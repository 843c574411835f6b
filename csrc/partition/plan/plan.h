#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "partition/plan/choice.h"
#include "partition/plan/dim_classes.h"
#include "partition/plan/layout.h"
#include "tdl/spec.h"

namespace smex {

/// How every value is held and every op is run, as a product of recursive steps (Tofu §5.3).
struct Plan {
  Mesh mesh;
  std::vector<Choices> values;  ///< by ValueId; Layout::tiles follow from shape and granules
  std::vector<Choices> ops;     ///< by OpId
  /// Tiles that values have in place of those that follow from their choices; see `keep_shards`.
  std::map<ValueId, std::vector<Tile>> shards;
  std::vector<int64_t> step_bytes;   ///< communication that each step adds
  std::vector<double> step_seconds;  ///< and its time, where a machine is given
  double compute_seconds = 0;        ///< of all ops, where a machine is given
  bool exact = true;                 ///< the search proved this the cheapest plan of each step
  double gap = 0;                    ///< otherwise (cost - lower bound) / cost, of the worst step
  /// Sums over edges whose sources are other workers' are added up by peer, where that needs less
  /// memory: see lower/sums_by_peer.h.
  bool by_peer = false;
  /// By op its place among all in workers' lists, as far as what it reads allows; empty: the
  /// graph's order. See simulate/list_order.h.
  std::vector<int> order;
  bool fits = true;  ///< the homes keep to the memory limit that was given
  double search_seconds = 0;
  std::string planner;
};

/// Whether an op under these choices is computed whole, by all workers or by some.
bool runs_whole(const Choices& choices);

/// The tile of `worker` when a tensor is cut step by step.
Tile value_tile(const Shape& shape, const Choices& choices, const Mesh& mesh, int worker,
                const std::vector<Grain>& grains);

/// The home layout of a value under a plan.
Layout home_layout(const Graph& graph, const DimClasses& classes, const Plan& plan, ValueId value);

/// Lets parameters and buffers have the tiles that `shards` lists, one for each worker: shards that
/// another graph of the same model was cut into, whose reshapes ask for other granules. Their
/// gradients and new values get the same tiles. What ops compute stays as the plan says.
/// Throws InternalError where a value has not as many tiles as there are workers, or a tile another
/// rank.
void keep_shards(const Graph& graph, const std::map<ValueId, std::vector<Tile>>& shards,
                 Plan& plan);

/// What each worker does of an op: index ranges, inputs needed, outputs made.
struct OpTiles {
  std::vector<bool> active;                        ///< false: the worker's share is empty
  std::vector<tdl::IndexRanges> ranges;            ///< empty for ops without a spec
  std::vector<std::vector<tdl::InputNeed>> needs;  ///< [worker][input]
  std::vector<Layout> outputs;                     ///< [output]; partial when a reduction is split
  std::vector<tdl::ReduceKind> reduces;            ///< [output]; of partial ones
  bool whole = true;                               ///< who computes any of it computes all
};

/// Tiles of an op, or a fused call, of the graph under `choices`, which are not necessarily the
/// plan's. Outputs have an addend where their homes do. Throws InternalError where the op does not
/// make the addends that a home has.
OpTiles op_tiles(const Graph& graph, const DimClasses& classes, const Plan& plan, const Op& op,
                 const Choices& choices);

/// The tiles that an op's workers need of input number `input`, whose home is `home`.
std::vector<Tile> needed_tiles(const OpTiles& tiles, size_t input, const Layout& home);

/// Bytes moved to bring a value from its home to what an op needs.
int64_t fetch_bytes(const Layout& home, const std::vector<Tile>& need, int itemsize);
/// Bytes moved to bring an op's output to its home, the reduction included. One that `weighs`
/// another output (see tdl::weight_sums) is first brought to all that made a part of it.
int64_t store_bytes(const Layout& made, const Layout& home, int itemsize, bool weighs = false);

/// A layout whose addends have been reduced where they are: everyone who made a part of a tile has
/// all of it.
Layout completed(Layout made);

/// By output of the op whether it weighs another one.
std::vector<bool> weighing_outputs(const Op& op);

/// Bytes that one op moves under a plan, inputs and outputs.
int64_t op_bytes(const Graph& graph, const DimClasses& classes, const Plan& plan, OpId op);
/// The same of an op, or a fused call, that runs under other choices than the plan's.
int64_t op_bytes(const Graph& graph, const DimClasses& classes, const Plan& plan, const Op& op,
                 const Choices& choices);
/// Bytes that the whole plan moves in one iteration.
int64_t plan_bytes(const Graph& graph, const Plan& plan);

}  // namespace smex
