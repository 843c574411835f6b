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
  if (unlike) return static_cast<int64_t>(unlike->devices.size());
  int64_t all = 1;
  for (const Level& level : levels) all = product(all, level.size);
  return all;
}

void Cluster::require(const Mesh& mesh) const {
  int64_t needed = 1;
  for (const int parts : mesh) needed = product(needed, parts);
  if (needed > workers()) {
    throw UserError(name + ": a plan for " + std::to_string(needed) +
                    " workers does not fit; give more nodes");
  }
}

std::vector<size_t> Cluster::levels_of(const Mesh& mesh) const {
  std::vector<int64_t> within(mesh.size() + 1, 1);  // workers of the parts that a step makes
  for (size_t step = mesh.size(); step-- > 0;) within[step] = product(within[step + 1], mesh[step]);
  require(mesh);
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
  Machine machine{device, {}, unlike};
  if (!unlike) {
    for (size_t level : levels_of(mesh)) machine.links.push_back(levels[level].link);
    return machine;
  }
  require(mesh);
  const int workers = mesh_size(mesh);
  for (size_t step = 0; step < mesh.size(); ++step) {
    Link slowest{0, std::numeric_limits<double>::infinity(), 1};
    for (int to = 0; to < workers; ++to) {
      for (int from = 0; from < workers; ++from) {
        if (first_difference(mesh, to, from) != step) continue;
        const Link& link = unlike->links.at(to).at(from);
        slowest.latency = std::max(slowest.latency, link.latency);
        slowest.bandwidth = std::min(slowest.bandwidth, link.bandwidth);
        slowest.overlap = std::min(slowest.overlap, link.overlap);
      }
    }
    machine.links.push_back(slowest);
  }
  return machine;
}

std::optional<Mesh> Cluster::mesh(int64_t workers) const {
  if (workers < 1) return std::nullopt;
  if (unlike) {
    if (workers > this->workers()) return std::nullopt;
    return workers > 1 ? Mesh{static_cast<int>(workers)} : Mesh{};
  }
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
