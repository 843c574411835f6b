#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"
#include "partition/plan/plan.h"
#include "tdl/spec.h"

namespace smex {

/// How one worker's kernel call differs from the tile it is for.
struct Window {
  bool padded = false;         ///< its inputs are padded by hand
  std::vector<Interval> crop;  ///< of what it computes; empty: nothing is cropped
  Shape computed;              ///< the shape before the crop
  Region tile;                 ///< of the cropped output
  /// By dimension of the output, where it is cropped: how far the tile reaches beyond what the
  /// windows cover.
  std::vector<std::optional<int64_t>> rest;
};

/// What becomes of the op's windows when it computes `ranges` and reads `needs`: inputs are padded
/// by hand where the tile cuts their windows, and the output is cropped where windows land on it (a
/// transposed convolution). An op without the rule kWindow has none.
Window find_window(const Op& op, const tdl::IndexRanges& ranges,
                   const std::vector<tdl::InputNeed>& needs);

/// Rewrites the arguments that depend on the tile, by the rules of the op.
void localise(const Op& op, const tdl::IndexRanges& ranges,
              const std::vector<tdl::InputNeed>& needs, const Window& window,
              std::vector<Attr>& args);

/// What padded reads of this input see outside of it.
double pad_value(const tdl::Spec& spec, int input);

/// The shape of an operand that gives its shape only: that of what is computed, where it asks for
/// the tile of a cropped output.
Shape shape_only(const Region& wanted, const Window& window);

/// One worker's kernel call for a tile, with its operands as boxes of the whole tensors.
struct TileCall {
  struct Operand {
    bool used = false;  ///< false: only the shape matters
    Region box;         ///< may reach beyond the tensor, where it reads `fill`
    double fill = 0;
    std::optional<std::vector<int64_t>> table;  ///< what stands in place of one
  };
  std::vector<Operand> operands;  ///< by Op::inputs
  std::vector<Attr> args;         ///< rewritten for the tile
  std::vector<Interval> crop;     ///< of what it computes; empty: nothing is cropped
};

/// What stands in place of the op's tables where it computes `ranges` and reads `needs`; see
/// tdl::local_tables.
std::vector<std::optional<std::vector<int64_t>>> own_tables(
    const Op& op, const tdl::IndexRanges& ranges, const std::vector<tdl::InputNeed>& needs);

TileCall tile_call(const Op& op, const tdl::IndexRanges& ranges);

}  // namespace smex
