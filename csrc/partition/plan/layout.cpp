#include "partition/plan/layout.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "ir/error.h"
#include "partition/plan/weighting.h"

namespace smex {

Interval cut(const Interval& range, int parts, int index, int64_t granule) {
  const int64_t step = granule > 0 && range.size() % granule == 0 ? granule : 1;
  const int64_t units = range.size() / step;
  return {range.lo + units * index / parts * step, range.lo + units * (index + 1) / parts * step};
}

Grain Grain::along(int64_t other) const {
  Grain both{std::lcm(unit, other), bounds, weightings};
  const auto fits = [&](int64_t end) { return end % both.unit == 0; };
  if (bounds && !std::all_of(bounds->begin(), bounds->end() - 1, fits)) both.bounds = nullptr;
  return both;
}

const Weighting* Grain::weighting(int choice) const {
  const int number = weighting_of(choice);
  if (number == 0 || bounds) return nullptr;
  if (!weightings || number > static_cast<int>(weightings->size())) {
    throw InternalError("plan: a cut by weighting " + std::to_string(number) +
                        ", which the graph does not have");
  }
  return &(*weightings)[number - 1];
}

Part Part::cut(const Grain& grain, int choice, const Mesh& mesh, size_t step, int index) const {
  Part piece = *this;
  if (grain.weightings && !grain.weightings->empty()) {
    piece.coordinates_.resize(mesh.size(), -1);
    piece.coordinates_[step] = index;
  }
  const int parts = mesh[step];
  if (!grain.bounds) {
    const Weighting* const weighting = grain.weighting(choice);
    piece.range_ =
        weighting ? cut_by_shares(range_, shares_of_parts(*weighting, mesh, coordinates_, step),
                                  grain.unit)
                        .at(index)
                  : smex::cut(range_, parts, index, grain.unit);
    return piece;
  }
  if ((last_ - first_) % parts != 0) {
    throw InternalError("cut: " + std::to_string(last_ - first_) + " given parts for " +
                        std::to_string(parts) + " workers");
  }
  const int each = (last_ - first_) / parts;
  piece.first_ = first_ + each * index;
  piece.last_ = piece.first_ + each;
  piece.range_ = {(*grain.bounds)[piece.first_], (*grain.bounds)[piece.last_]};
  return piece;
}

namespace {

/// Covers `need` from the tiles of one partial of one addend; appends the copies.
void cover(const Layout& have, int partial, int addend, int dest, const Region& need,
           std::vector<Copy>& copies) {
  const int workers = static_cast<int>(have.tiles.size());
  std::vector<Region> missing{need};
  for (int offset = 0; offset < workers && !missing.empty(); ++offset) {
    const int source = (dest + offset) % workers;
    const Tile& tile = have.tiles[source];
    if (!tile.held || tile.partial != partial || tile.addend != addend) continue;
    std::vector<Region> still_missing;
    for (const Region& box : missing) {
      const Region found = intersect(box, tile.region);
      if (found.empty()) {
        still_missing.push_back(box);
        continue;
      }
      copies.push_back({source, dest, found});
      for (Region& rest : subtract(box, found)) still_missing.push_back(std::move(rest));
    }
    missing = std::move(still_missing);
  }
  if (!missing.empty()) {
    throw InternalError("relayout: nobody holds " + missing.front().str() + " for worker " +
                        std::to_string(dest));
  }
}

bool are_replicas(const Tile& a, const Tile& b) {
  return a.held && b.held && a.addend == b.addend && a.region == b.region;
}

bool all_held_once(const std::vector<Tile>& tiles) {
  for (size_t a = 0; a < tiles.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      if (are_replicas(tiles[a], tiles[b])) return false;
    }
  }
  return true;
}

}  // namespace

std::vector<Copy> relayout(const Layout& have, const std::vector<Tile>& need) {
  std::vector<Copy> copies;
  for (int dest = 0; dest < static_cast<int>(need.size()); ++dest) {
    if (!need[dest].held || need[dest].region.empty()) continue;
    for (int partial = 0; partial < have.num_partials; ++partial) {
      cover(have, partial, need[dest].addend, dest, need[dest].region, copies);
    }
  }
  return copies;
}

int64_t relayout_numel(const Layout& have, const std::vector<Tile>& need) {
  int64_t moved = 0;
  for (size_t w = 0; w < need.size(); ++w) {
    if (!need[w].held) continue;
    const Tile& own = have.tiles[w];
    moved += need[w].region.numel() * have.num_partials;
    if (own.held) moved -= intersect(need[w].region, own.region).numel();
  }
  return moved;
}

std::vector<Tile> scatter_stage(const Layout& have, const std::vector<Tile>& need) {
  if (have.num_partials < 2 || all_held_once(need)) return need;
  std::vector<Tile> stage = need;
  for (size_t w = 0; w < need.size(); ++w) {
    if (!need[w].held) continue;
    int replicas = 0;
    int rank = 0;
    for (size_t peer = 0; peer < need.size(); ++peer) {
      if (!are_replicas(need[peer], need[w])) continue;
      if (peer < w) ++rank;
      ++replicas;
    }
    Region part = Region::whole(need[w].region.shape());
    auto longest =
        std::max_element(part.dims.begin(), part.dims.end(),
                         [](const auto& a, const auto& b) { return a.size() < b.size(); });
    if (longest == part.dims.end() || longest->size() < replicas) return need;  // too small to cut
    *longest = cut(*longest, replicas, rank, /*granule=*/1);
    stage[w].region = part.absolute_in(need[w].region);
  }
  return stage;
}

}  // namespace smex
