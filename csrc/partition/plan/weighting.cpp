#include "partition/plan/weighting.h"

#include <cmath>
#include <numeric>
#include <string>

#include "ir/error.h"

namespace smex {

std::vector<double> shares_of_parts(const Weighting& weighting, const Mesh& mesh,
                                    const std::vector<int>& coordinates, size_t step) {
  const int workers = static_cast<int>(weighting.shares.size());
  const int known = mesh_size(mesh);
  if (workers % known != 0) {
    throw InternalError("weighting " + weighting.name + " is of " + std::to_string(workers) +
                        " workers, the mesh of " + std::to_string(known));
  }
  std::vector<double> shares(mesh[step], 0);
  for (int worker = 0; worker < workers; ++worker) {
    const int among = worker / (workers / known);
    bool counts = true;
    for (size_t s = 0; s < coordinates.size() && counts; ++s) {
      counts = s == step || coordinates[s] < 0 ||
               coordinates[s] == mesh_coordinate(mesh, among, static_cast<int>(s));
    }
    if (counts) {
      shares[mesh_coordinate(mesh, among, static_cast<int>(step))] += weighting.shares[worker];
    }
  }
  return shares;
}

std::vector<double> shares_within_parts(int workers, int parts, const Weighting* weighting) {
  const int each = workers / parts;
  std::vector<double> shares(workers, 1.0 / each);
  for (int first = 0; weighting && first < workers; first += each) {
    const auto begin = weighting->shares.begin() + first;
    const double all = std::accumulate(begin, begin + each, 0.0);
    for (int n = 0; all > 0 && n < each; ++n) shares[first + n] = *(begin + n) / all;
  }
  return shares;
}

std::vector<Interval> cut_by_shares(const Interval& range, const std::vector<double>& shares,
                                    int64_t granule) {
  const int64_t unit = granule > 0 && range.size() % granule == 0 ? granule : 1;
  const int64_t units = range.size() / unit;
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<Interval> parts;
  double before = 0;
  int64_t begin = 0;
  for (size_t n = 0; n < shares.size(); ++n) {
    before += all > 0 ? shares[n] : 1;
    const double share = before / (all > 0 ? all : static_cast<double>(shares.size()));
    const bool is_last = n + 1 == shares.size();
    const int64_t end = is_last ? units : std::llround(static_cast<double>(units) * share);
    parts.push_back({range.lo + begin * unit, range.lo + end * unit});
    begin = end;
  }
  return parts;
}

}  // namespace smex
