#include "partition/price/cluster.h"

#include <algorithm>
#include <limits>

#include "ir/error.h"

namespace smex {

namespace {

/// Of numbers from 1 on, at most the largest.
int64_t product(int64_t a, int64_t b) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return b > 0 && a > kMost / b ? kMost : a * b;
}

}  // namespace

int64_t Cluster::workers() const {
  int64_t all = 1;
  for (const Level& level : levels) all = product(all, level.size);
  return all;
}

std::vector<size_t> Cluster::levels_of(const Mesh& mesh) const {
  std::vector<int64_t> within(mesh.size() + 1, 1);  // workers of the parts that a step makes
  for (size_t step = mesh.size(); step-- > 0;) within[step] = product(within[step + 1], mesh[step]);
  if (within.front() > workers()) {
    throw UserError(name + ": a plan for " + std::to_string(within.front()) +
                    " workers does not fit; give more nodes");
  }
  std::vector<size_t> found;
  for (size_t step = 0; step < mesh.size(); ++step) {
    size_t level = 0;
    for (int64_t joined = levels[0].size; within[step] > joined && level + 1 < levels.size();) {
      joined = product(joined, levels[++level].size);
    }
    found.push_back(level);
  }
  return found;
}

Machine Cluster::on(const Mesh& mesh) const {
  Machine machine{flops, memory_bandwidth, launch, {}, gather_bandwidth, calls};
  for (size_t level : levels_of(mesh)) machine.links.push_back(levels[level].link);
  return machine;
}

std::optional<Mesh> Cluster::mesh(int64_t workers) const {
  if (workers < 1) return std::nullopt;
  Mesh steps;
  for (const Level& level : levels) {
    int64_t parts = std::min(level.size, workers);
    while (workers % parts != 0) --parts;
    workers /= parts;
    if (parts > 1) steps.insert(steps.begin(), static_cast<int>(parts));
  }
  if (workers != 1) return std::nullopt;
  return steps;
}

}  // namespace smex
