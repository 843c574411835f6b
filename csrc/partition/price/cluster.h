#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "partition/price/machine.h"

namespace smex {

/// Workers that are connected alike: the GPUs of a node, the nodes of a cluster.
struct Level {
  int64_t size = 1;  ///< how many of the level below it joins: of workers, at the lowest level
  Link link;         ///< between them
};

/// All workers of a machine and how they are connected, before a mesh is chosen.
struct Cluster {
  std::string name;           ///< in messages
  Device device;              ///< of all workers, where they are alike
  std::vector<Level> levels;  ///< from the fastest links to the slowest; workers fill them in order
  std::shared_ptr<const Unlike> unlike = nullptr;  ///< in place of both

  /// How many workers there are, at most the largest number.
  int64_t workers() const;
  /// By step of a mesh the slowest level between the parts that the step makes. Workers are
  /// numbered with the first step slowest, so that the first steps are between the nodes, where a
  /// plan moves the least (Tofu §5.2, theorem 2). Throws UserError where the mesh has more workers.
  std::vector<size_t> levels_of(const Mesh& mesh) const;
  /// The machine as the steps of a mesh see it: of workers that are not alike a step has the
  /// slowest of the links that it makes two parts communicate over. Throws as `levels_of`.
  Machine on(const Mesh& mesh) const;
  /// A step for each level, the slowest first, filled as far as the number divides: 12 workers on
  /// nodes of 8 are 2 of 6. Nothing where they are more than there are, or a prime number too large
  /// for a level. One step of workers that are not alike.
  std::optional<Mesh> mesh(int64_t workers) const;

 private:
  void require(const Mesh& mesh) const;
};

}  // namespace smex
