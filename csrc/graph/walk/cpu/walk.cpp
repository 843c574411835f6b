#include "graph/walk/walk.h"

#include <algorithm>
#include <utility>

#include "graph/row_random.h"

namespace smex::graph {
namespace {

constexpr int64_t kWalkGrain = 64;
constexpr int64_t kNone = -1;

/// A position of the row in proportion to the weights, or kNone where there is nothing to draw.
template <typename Index>
int64_t draw_position(const Candidates<Index>& from, int64_t row, RowRandom& random, Least& wrong) {
  const int64_t begin = from.rows.begin(row), size = from.rows.end(row) - begin;
  if (from.are_all()) return size == 0 ? kNone : begin + static_cast<int64_t>(random.below(size));
  double sum = 0;
  int64_t drawn = kNone;
  const int64_t edge = from.for_each(row, [&](int64_t, double weight) { sum += weight; });
  if (edge >= 0) {
    wrong.report(edge);
    return kNone;
  }
  double left = random.uniform() * sum;
  bool found = false;
  from.for_each(row, [&](int64_t position, double weight) {
    if (found) return;
    drawn = position;  // the last one, where rounding leaves a rest
    found = left < weight;
    left -= weight;
  });
  return drawn;
}

/// As draw_position, with the weights times `bias(column)`, at least one of which is positive.
template <typename Index, typename Bias>
int64_t draw_biased(const Candidates<Index>& from, int64_t row, RowRandom& random,
                    const Bias& bias) {
  double sum = 0;
  int64_t drawn = kNone;
  std::vector<std::pair<double, int64_t>> ends;
  from.for_each(row, [&](int64_t position, double weight) {
    sum += weight * bias(from.rows.indices[position]);
    ends.push_back({sum, position});
  });
  const double point = random.uniform() * sum;
  for (const auto& [end, position] : ends) {
    drawn = position;
    if (point < end) break;
  }
  return drawn;
}

template <typename Index>
bool has_edge(const EdgeRows<Index>& sorted, int64_t row, Index column) {
  return std::binary_search(sorted.indices + sorted.begin(row), sorted.indices + sorted.end(row),
                            column);
}

/// Runs `walk(i, random, nodes, eids)` for each seed, with the output of walk i filled with -1.
template <typename Index, typename Walk>
Mistake for_walks(const Index* seeds, int64_t count, int64_t steps, uint64_t seed, Index* nodes,
                  Index* eids, const Workers& workers, const Walk& walk) {
  Least row, edge;
  workers.for_ranges(count, kWalkGrain, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Index* const mine = nodes + i * (steps + 1);
      std::fill(mine, mine + steps + 1, static_cast<Index>(kNone));
      std::fill(eids + i * steps, eids + (i + 1) * steps, static_cast<Index>(kNone));
      mine[0] = seeds[i];
      RowRandom random(seed, i);
      if (!walk(random, mine, eids + i * steps, edge)) row.report(i);
    }
  });
  return {row.get(), edge.get()};
}

}  // namespace

template <typename Index>
Mistake random_walk(const std::vector<Candidates<Index>>& path, const Index* seeds, int64_t count,
                    const Restart& restart, uint64_t seed, Index* nodes, Index* eids,
                    const Workers& workers) {
  const int64_t steps = path.size();
  const auto walk = [&](RowRandom& random, Index* mine, Index* edges, Least& wrong) {
    for (int64_t k = 0; k < steps; ++k) {
      const EdgeRows<Index>& rows = path[k].rows;
      if (!rows.is_valid(mine[k])) return false;
      const int64_t position = draw_position(path[k], mine[k], random, wrong);
      if (position == kNone) return true;
      mine[k + 1] = rows.indices[position];
      edges[k] = rows.eid(position);
      const double ends = restart.after(k);
      if (ends > 0 && random.uniform() < ends) return true;
    }
    return true;
  };
  return for_walks(seeds, count, steps, seed, nodes, eids, workers, walk);
}

template <typename Index>
Mistake node2vec_walk(const Candidates<Index>& from, const EdgeRows<Index>& sorted,
                      const Index* seeds, int64_t count, const Node2vec& how, uint64_t seed,
                      Index* nodes, Index* eids, const Workers& workers) {
  const EdgeRows<Index>& rows = from.rows;
  const double back = 1 / how.p, away = 1 / how.q, largest = std::max({back, 1.0, away});
  // A draw is accepted with probability bias / largest. After so many a scan of the row is cheaper.
  constexpr int kPatience = 32;
  const auto walk = [&](RowRandom& random, Index* mine, Index* edges, Least& wrong) {
    for (int64_t k = 0; k < how.steps; ++k) {
      const auto bias = [&](Index next) {
        if (k == 0 || !sorted.is_valid(next)) return 1.0;
        if (next == mine[k - 1]) return back;
        return has_edge(sorted, next, mine[k - 1]) ? 1.0 : away;
      };
      if (!rows.is_valid(mine[k])) return false;
      int64_t position = kNone;
      for (int n = 0; n <= kPatience; ++n) {
        position = n < kPatience ? draw_position(from, mine[k], random, wrong)
                                 : draw_biased(from, mine[k], random, bias);
        if (position == kNone) return true;
        if (k == 0 || random.uniform() * largest < bias(rows.indices[position])) break;
      }
      mine[k + 1] = rows.indices[position];
      edges[k] = rows.eid(position);
    }
    return true;
  };
  return for_walks(seeds, count, how.steps, seed, nodes, eids, workers, walk);
}

#define SMEX_INSTANTIATE(Index)                                                                   \
  template Mistake random_walk<Index>(const std::vector<Candidates<Index>>&, const Index*,        \
                                      int64_t, const Restart&, uint64_t, Index*, Index*,          \
                                      const Workers&);                                            \
  template Mistake node2vec_walk<Index>(const Candidates<Index>&, const EdgeRows<Index>&,         \
                                        const Index*, int64_t, const Node2vec&, uint64_t, Index*, \
                                        Index*, const Workers&);

SMEX_INSTANTIATE(int32_t)
SMEX_INSTANTIATE(int64_t)

}  // namespace smex::graph
