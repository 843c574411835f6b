#include "graph/labor/labor.h"

#include <algorithm>
#include <numbers>
#include <numeric>

#include "graph/relabel/relabel.h"
#include "graph/row_random.h"

namespace smex::graph {
namespace {

// The iteration has converged when no probability has changed by more.
constexpr double kTolerance = 1e-4;
// Enough in practice: the paper reports convergence after a few dozen.
constexpr int64_t kMaxIterations = 100;
constexpr int64_t kRowGrain = 64;
// Weights may be too far apart for their quotients to be numbers.
constexpr double kLeastChance = 1e-150;
constexpr double kMostChance = 1e150;

/// The number of a column under a seed: standard normal, so that two can be mixed.
double normal_of(uint64_t seed, uint64_t column) {
  RowRandom random(seed, column);
  const double radius = std::sqrt(2 * random.exponential());
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

/// r_t. A rotation from one seed's normal numbers to the other's stays normal all the way.
double number_of_column(const LaborDraw& draw, uint64_t column) {
  if (draw.share == 0) return RowRandom(draw.seed, column).uniform();
  const double angle = draw.share * std::numbers::pi / 2;
  const double mixed = std::cos(angle) * normal_of(draw.seed, column) +
                       std::sin(angle) * normal_of(draw.second_seed, column);
  return std::min(std::erfc(-mixed / std::numbers::sqrt2) / 2, 1 - 0x1p-53);
}

/// The candidates of all chosen rows, with their chances c π: an edge's probability is its chance,
/// but at most 1.
template <typename Index>
struct Pool {
  std::vector<int64_t> offsets;
  std::vector<Index> columns;     // numbered from 0
  std::vector<Index> column_ids;  // by number
  std::vector<int64_t> positions;
  std::vector<double> weights;
  std::vector<double> chances;
  std::vector<double> variances;  // of each row

  int64_t size() const { return positions.size(); }
  double probability(int64_t e) const { return std::min(1.0, chances[e]); }
  /// How many times over a row that takes all its `size` edges could have the fanout.
  static double surplus(int64_t fanout, int64_t size) {
    return std::max(1.0, static_cast<double>(fanout) / size);
  }
};

/// c with Σ min(1, c w) = count over weights in ascending order, 0 < count < their number.
double scale_to_count(const std::vector<double>& ascending, int64_t count) {
  const int64_t size = ascending.size();
  // The first size - count are not certain; each further one is, or adds to the sum of those.
  double sum = std::accumulate(ascending.begin(), ascending.end() - count, 0.0);
  double scale = 0;
  for (int64_t certain = count; certain >= 0; --certain) {
    if (certain < count) {
      const double next = ascending[size - certain - 1];
      if (scale * next >= 1) break;
      sum += next;
    }
    scale = (count - certain) / sum;
  }
  return scale;
}

/// First chances of a row, and the variance that they give its mean.
template <typename Index>
void start_row(Pool<Index>& pool, int64_t i, int64_t fanout) {
  const int64_t begin = pool.offsets[i], end = pool.offsets[i + 1];
  pool.variances[i] = 0;
  if (fanout < 0 || begin == end) return;
  std::vector<double> ascending(pool.weights.begin() + begin, pool.weights.begin() + end);
  std::sort(ascending.begin(), ascending.end());
  const bool takes_all = end - begin <= fanout;
  const double scale = takes_all     ? pool.surplus(fanout, end - begin) / ascending[0]
                       : fanout == 0 ? 0
                                     : scale_to_count(ascending, fanout);
  for (int64_t e = begin; e < end; ++e) {
    const double weight = pool.weights[e];
    pool.chances[e] = fanout == 0 ? 0 : std::clamp(scale * weight, kLeastChance, kMostChance);
    if (fanout == 0 || takes_all) continue;
    pool.variances[i] += weight * weight * (1 / pool.probability(e) - 1);
  }
}

/// c with Σ a² (1 / min(1, c π) - 1) = variance, for a row that does not take all its edges.
template <typename Index>
double scale_to_variance(const Pool<Index>& pool, int64_t i, const std::vector<double>& pi) {
  std::vector<std::pair<double, double>> ascending;  // (π, a²)
  for (int64_t e = pool.offsets[i]; e < pool.offsets[i + 1]; ++e) {
    ascending.push_back({pi[pool.columns[e]], pool.weights[e] * pool.weights[e]});
  }
  std::sort(ascending.begin(), ascending.end());
  double numerator = 0, denominator = pool.variances[i], scale = 0;
  for (const auto& [of_column, square] : ascending) {
    // This one is certain under the scale of those before it, and so are all that follow.
    if (denominator > pool.variances[i] && scale * of_column >= 1) break;
    numerator += square / of_column;
    denominator += square;
    scale = numerator / denominator;
  }
  return scale;
}

/// One iteration; the largest relative change of a probability.
template <typename Index>
double improve(Pool<Index>& pool, int64_t count, int64_t fanout, const Workers& workers) {
  std::vector<double> pi(pool.column_ids.size(), 0.0);
  for (int64_t e = 0; e < pool.size(); ++e) {
    pi[pool.columns[e]] = std::max(pi[pool.columns[e]], pool.chances[e]);
  }
  std::vector<double> changes(workers.count, 0.0);
  workers.for_ranges(count, kRowGrain, [&](int64_t worker, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t size = pool.offsets[i + 1] - pool.offsets[i];
      const bool takes_all = size <= fanout;               // its π are 1 at least already
      if (!takes_all && pool.variances[i] == 0) continue;  // weights whose squares are too small
      const double scale = takes_all ? pool.surplus(fanout, size) : scale_to_variance(pool, i, pi);
      for (int64_t e = pool.offsets[i]; e < pool.offsets[i + 1]; ++e) {
        const double before = pool.probability(e);
        pool.chances[e] = std::clamp(scale * pi[pool.columns[e]], kLeastChance, kMostChance);
        changes[worker] = std::max(changes[worker], std::abs(pool.probability(e) / before - 1));
      }
    }
  });
  return *std::max_element(changes.begin(), changes.end());
}

template <typename Index>
Mistake collect(const Candidates<Index>& from, const Index* chosen, int64_t count,
                Pool<Index>& pool) {
  pool.offsets.assign(1, 0);
  std::vector<Index> ids;
  for (int64_t i = 0; i < count; ++i) {
    if (!from.rows.is_valid(chosen[i])) return {i, -1};
    const int64_t wrong = from.for_each(chosen[i], [&](int64_t position, double weight) {
      pool.positions.push_back(position);
      pool.weights.push_back(weight);
      ids.push_back(from.rows.indices[position]);
    });
    if (wrong >= 0) return {-1, wrong};
    pool.offsets.push_back(pool.size());
  }
  Relabeling<Index> relabeling(ids.size(), /*num_ids=*/-1);
  pool.columns.resize(ids.size());
  relabeling.add(ids.data(), ids.size(), pool.columns.data());
  pool.column_ids = relabeling.ids();
  pool.chances.assign(ids.size(), 1.0);
  pool.variances.assign(count, 0.0);
  return {};
}

template <typename Index>
void take_drawn(const Pool<Index>& pool, const EdgeRows<Index>& rows, int64_t count,
                const std::vector<double>& numbers, WeightedEdges<Index>& out) {
  out = {};
  out.offsets.push_back(0);
  std::vector<double> importances;  // of a row
  for (int64_t i = 0; i < count; ++i) {
    importances.clear();
    for (int64_t e = pool.offsets[i]; e < pool.offsets[i + 1]; ++e) {
      if (numbers[pool.columns[e]] >= pool.probability(e)) continue;
      out.columns.push_back(pool.column_ids[pool.columns[e]]);
      out.eids.push_back(rows.eid(pool.positions[e]));
      importances.push_back(pool.weights[e] / pool.probability(e));
    }
    const double sum = std::accumulate(importances.begin(), importances.end(), 0.0);
    const double scale = static_cast<double>(importances.size()) / sum;
    for (const double importance : importances) {
      out.importances.push_back(static_cast<float>(importance * scale));
    }
    out.offsets.push_back(out.columns.size());
  }
}

/// The sample where an edge is drawn with probability fanout / degree: nothing to be looked for.
template <typename Index>
Mistake sample_unweighted(const EdgeRows<Index>& rows, const Index* chosen, int64_t count,
                          const LaborDraw& draw, WeightedEdges<Index>& out,
                          const Workers& workers) {
  const int64_t num_blocks = (count + kRowGrain - 1) / kRowGrain;
  std::vector<std::vector<int64_t>> positions(num_blocks);
  Least invalid;
  out = {};
  out.offsets.assign(count + 1, 0);
  workers.for_each(num_blocks, [&](int64_t, int64_t block) {
    std::vector<int64_t>& mine = positions[block];
    for (int64_t i = block * kRowGrain; i < std::min(count, (block + 1) * kRowGrain); ++i) {
      if (!rows.is_valid(chosen[i])) return invalid.report(i);
      const int64_t begin = rows.begin(chosen[i]), end = rows.end(chosen[i]);
      const size_t before = mine.size();
      const bool takes_all = draw.fanout < 0 || end - begin <= draw.fanout;
      const double probability = static_cast<double>(draw.fanout) / (end - begin);
      for (int64_t p = begin; p < end; ++p) {
        if (takes_all || number_of_column(draw, rows.indices[p]) < probability) mine.push_back(p);
      }
      out.offsets[i + 1] = mine.size() - before;
    }
  });
  if (invalid.get() >= 0) return {invalid.get(), -1};
  std::partial_sum(out.offsets.begin(), out.offsets.end(), out.offsets.begin());
  out.columns.resize(out.offsets[count]);
  out.eids.resize(out.offsets[count]);
  out.importances.assign(out.offsets[count], 1.0F);
  workers.for_each(num_blocks, [&](int64_t, int64_t block) {
    int64_t to = out.offsets[block * kRowGrain];
    for (const int64_t p : positions[block]) {
      out.columns[to] = rows.indices[p];
      out.eids[to++] = rows.eid(p);
    }
  });
  return {};
}

}  // namespace

template <typename Index>
Mistake sample_labor(const Candidates<Index>& from, const Index* chosen, int64_t count,
                     const LaborDraw& draw, WeightedEdges<Index>& out, const Workers& workers) {
  if (from.are_all() && draw.iterations == 0) {
    return sample_unweighted(from.rows, chosen, count, draw, out, workers);
  }
  Pool<Index> pool;
  if (const Mistake mistake = collect(from, chosen, count, pool)) return mistake;
  workers.for_ranges(count, kRowGrain, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) start_row(pool, i, draw.fanout);
  });
  const int64_t iterations = draw.iterations < 0 ? kMaxIterations : draw.iterations;
  for (int64_t n = 0; n < iterations && draw.fanout > 0; ++n) {
    if (improve(pool, count, draw.fanout, workers) < kTolerance) break;
  }
  const int64_t num_columns = pool.column_ids.size();
  std::vector<double> numbers(num_columns);
  workers.for_ranges(num_columns, /*grain=*/1 << 10, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) numbers[t] = number_of_column(draw, pool.column_ids[t]);
  });
  take_drawn(pool, from.rows, count, numbers, out);
  return {};
}

#define SMEX_INSTANTIATE(Index)                                                         \
  template Mistake sample_labor<Index>(const Candidates<Index>&, const Index*, int64_t, \
                                       const LaborDraw&, WeightedEdges<Index>&, const Workers&);

SMEX_INSTANTIATE(int32_t)
SMEX_INSTANTIATE(int64_t)

}  // namespace smex::graph
