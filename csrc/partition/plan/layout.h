#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "ir/region.h"
#include "partition/plan/choice.h"

namespace smex {

/// What one worker holds of a value. Tiles with different `partial` must be reduced with each
/// other.
struct Tile {
  bool held = false;
  Region region;
  int partial = 0;
  /// Of a sum that stays pending the addend that this is a tile of: nothing moves between addends.
  int addend = 0;
};

/// Who holds what of a value: one tile per worker, uneven, possibly overlapping (replicas, halos).
struct Layout {
  std::vector<Tile> tiles;
  int num_partials = 1;  ///< more than one: a reduction is pending
};

/// A box that moves from one worker to another (or stays, when source == dest).
struct Copy {
  int source = 0;
  int dest = 0;
  Region region;
};

/// The copies that give every worker what it needs: its own tile first, then the peers' in cyclic
/// order, so that replicas share the load. Of a pending layout each partial is copied once, in the
/// order of partials; the receiver reduces them. Throws InternalError when `have` lacks an element.
std::vector<Copy> relayout(const Layout& have, const std::vector<Tile>& need);

/// Elements that relayout moves between workers, without listing the copies. O(workers · partials).
int64_t relayout_numel(const Layout& have, const std::vector<Tile>& need);

/// The tiles to reduce into before gathering, when `need` holds replicas of a pending value: each
/// group of equal tiles is cut evenly among its holders (reduce-scatter, then all-gather).
/// Equal to `need` when nothing is gained.
std::vector<Tile> scatter_stage(const Layout& have, const std::vector<Tile>& need);

/// `range` cut into `parts` along multiples of `granule`; piece number `index`.
Interval cut(const Interval& range, int parts, int index, int64_t granule);

/// Where a dimension is cut.
struct Grain {
  int64_t unit = 1;  ///< cuts are multiples of it
  /// Where parts begin and end in place of even ones: 0, then the ends of as many parts as a mesh
  /// has workers. A step cuts a part of several of these where its share of them ends.
  std::shared_ptr<const std::vector<int64_t>> bounds = nullptr;
  /// The graph's, which has to live as long, for cuts that are not even.
  const std::vector<Weighting>* weightings = nullptr;

  /// The same with cuts that are multiples of another unit too; given parts that are not are none.
  Grain along(int64_t other) const;
  /// Equal for equal ones.
  int64_t key() const { return bounds ? -reinterpret_cast<int64_t>(bounds.get()) : unit; }
  /// That a choice cuts by; null where it cuts evenly or parts are given. Throws InternalError
  /// where the graph has none of that number.
  const Weighting* weighting(int choice) const;
  /// Whether a range is long enough for so many parts; given ones may be empty.
  bool has_parts(int64_t size, int parts) const { return bounds ? true : size / unit >= parts; }
};

/// A range that is cut step by step.
class Part {
 public:
  Part(const Interval& range, const Grain& grain)
      : range_(range), last_(grain.bounds ? static_cast<int>(grain.bounds->size()) - 1 : 0) {}
  /// Number `index` of the parts that `choice` cuts it into in a step of the mesh: of the given
  /// parts equally many, or by a weighting, or evenly.
  Part cut(const Grain& grain, int choice, const Mesh& mesh, size_t step, int index) const;
  const Interval& range() const { return range_; }

 private:
  Interval range_;
  int first_ = 0, last_ = 0;  ///< of the given parts
  /// By step so far, -1 where it was not cut; of graphs with weightings.
  std::vector<int> coordinates_;
};

}  // namespace smex
