#include "graph/sample/sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "../edges.h"
#include "graph/row_random.h"

namespace smex::graph {
namespace {

template <typename Index>
struct Sample {
  std::vector<int64_t> offsets;
  std::vector<Index> columns, eids;
  bool operator==(const Sample&) const = default;
};

template <typename Index>
Sample<Index> sample(const Candidates<Index>& from, const std::vector<Index>& chosen,
                     const Draw& draw, const Workers& workers = {}) {
  Sample<Index> result;
  const int64_t count = chosen.size();
  result.offsets.resize(count + 1);
  EXPECT_FALSE(sample_offsets(from, chosen.data(), count, draw, result.offsets.data(), workers));
  result.columns.resize(result.offsets.back());
  result.eids.resize(result.offsets.back());
  sample_rows(from, chosen.data(), count, draw, result.offsets.data(), result.columns.data(),
              result.eids.data(), workers);
  return result;
}

/// One row of `size` edges to columns 0, 1, 2, ..., chosen `times` times.
struct OneRow {
  std::vector<int64_t> indptr, indices, chosen;

  OneRow(int64_t size, int64_t times) : indptr{0, size}, chosen(times, 0) {
    for (int64_t i = 0; i < size; ++i) indices.push_back(i);
  }
  EdgeRows<int64_t> rows() const {
    return {1, static_cast<int64_t>(indices.size()), indptr.data(), indices.data(), nullptr};
  }
};

/// Pearson's statistic of counts against probabilities.
double chi_squared(const std::vector<int64_t>& counts, const std::vector<double>& probabilities) {
  double total = 0, statistic = 0;
  for (const int64_t count : counts) total += count;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = total * probabilities[i];
    statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return statistic;
}

/// What the statistic exceeds once in 10,000 times, by the cube root's normal approximation.
double critical(int64_t cells) {
  const double degrees = cells - 1, share = 2 / (9 * degrees);
  return degrees * std::pow(1 - share + 3.72 * std::sqrt(share), 3);
}

TEST(RowRandom, NumbersBelowABoundAreEquallyLikely) {
  for (const uint64_t size : {1, 2, 3, 7, 100}) {
    RowRandom random(5, size);
    std::vector<int64_t> counts(size);
    for (int n = 0; n < 100000; ++n) ++counts.at(random.below(size));
    if (size == 1) continue;
    EXPECT_LT(chi_squared(counts, std::vector<double>(size, 1.0 / size)), critical(size)) << size;
  }
  RowRandom random(5, 0);
  const uint64_t large = (uint64_t{3} << 40) + 1;
  double sum = 0;
  for (int n = 0; n < 10000; ++n) {
    const uint64_t number = random.below(large);
    ASSERT_LT(number, large);
    sum += static_cast<double>(number) / static_cast<double>(large);
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);
}

TEST(RowRandom, StreamsDiffer) {
  std::set<uint64_t> seen;
  for (uint64_t stream = 0; stream < 1000; ++stream) {
    seen.insert(RowRandom(1, stream).two_words());
    seen.insert(RowRandom(2, stream).two_words());
  }
  EXPECT_EQ(seen.size(), 2000);
}

TEST(Sample, SetsWithoutReplacementAreEquallyLikely) {
  const OneRow row(6, 60000);
  const auto drawn = sample<int64_t>({row.rows(), {}, nullptr}, row.chosen, {3, false, 7});
  std::map<std::set<int64_t>, int64_t> sets;
  for (size_t i = 0; i < row.chosen.size(); ++i) {
    sets[{drawn.columns.begin() + 3 * i, drawn.columns.begin() + 3 * (i + 1)}]++;
  }
  ASSERT_EQ(sets.size(), 20);  // 6 over 3: none has a repetition
  std::vector<int64_t> counts;
  for (const auto& [set, count] : sets) counts.push_back(count);
  EXPECT_LT(chi_squared(counts, std::vector<double>(20, 0.05)), critical(20));
}

TEST(Sample, ManyWithoutReplacement) {
  // More than are looked through one by one.
  const int64_t kSize = 100, kFanout = 60, kTimes = 5000;
  const OneRow row(kSize, kTimes);
  const auto drawn = sample<int64_t>({row.rows(), {}, nullptr}, row.chosen, {kFanout, false, 8});
  std::vector<int64_t> counts(kSize);
  for (int64_t i = 0; i < kTimes; ++i) {
    const auto begin = drawn.columns.begin() + kFanout * i;
    EXPECT_EQ(std::set<int64_t>(begin, begin + kFanout).size(), kFanout);
    for (auto column = begin; column < begin + kFanout; ++column) ++counts[*column];
  }
  // Without replacement the counts vary less than the statistic allows for.
  EXPECT_LT(chi_squared(counts, std::vector<double>(kSize, 1.0 / kSize)), critical(kSize));
  EXPECT_GT(chi_squared(counts, std::vector<double>(kSize, 1.0 / kSize)), 10);
}

TEST(Sample, WithReplacementFollowsTheWeights) {
  const OneRow row(4, 20000);
  const std::vector<float> weights = {1, 0, 3, 4};
  const Candidates<int64_t> from{row.rows(), {Weights::Kind::kFloat, weights.data()}, nullptr};
  const auto drawn = sample(from, row.chosen, {5, true, 9});
  std::vector<int64_t> counts(4);
  for (const int64_t column : drawn.columns) ++counts[column];
  EXPECT_EQ(drawn.columns.size(), 100000);
  EXPECT_EQ(counts[1], 0);
  EXPECT_LT(chi_squared({counts[0], counts[2], counts[3]}, {0.125, 0.375, 0.5}), critical(3));
}

TEST(Sample, WithoutReplacementFollowsTheWeightsThatAreLeft) {
  const OneRow row(4, 60000);
  const std::vector<double> weights = {1, 2, 0, 5};
  const Candidates<int64_t> from{row.rows(), {Weights::Kind::kDouble, weights.data()}, nullptr};
  const auto drawn = sample(from, row.chosen, {2, false, 10});
  std::map<std::set<int64_t>, int64_t> sets;
  for (size_t i = 0; i < row.chosen.size(); ++i) {
    sets[{drawn.columns[2 * i], drawn.columns[2 * i + 1]}]++;
  }
  std::vector<int64_t> counts;
  std::vector<double> probabilities;
  for (const auto& [a, b] : {std::pair{0, 1}, {0, 3}, {1, 3}}) {
    counts.push_back(sets[{a, b}]);
    const double wa = weights[a] / 8, wb = weights[b] / 8;
    probabilities.push_back(wa * wb / (1 - wa) + wb * wa / (1 - wb));
  }
  EXPECT_EQ(sets.size(), 3);
  EXPECT_LT(chi_squared(counts, probabilities), critical(3));
}

template <typename Index>
class SampleEdges : public ::testing::Test {};
using Indices = ::testing::Types<int32_t, int64_t>;
TYPED_TEST_SUITE(SampleEdges, Indices);

TYPED_TEST(SampleEdges, AreEdgesOfTheirRowsForAnyWorkers) {
  using Index = TypeParam;
  const auto form = compress(random_edges<Index>(500, 90, 6000, 0.3).list());
  const EdgeRows<Index> rows = form.rows();
  std::vector<float> weights(6000);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = i % 5;
  std::vector<char> mask(6000);
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = i % 3 == 0;
  std::vector<Index> left_out;
  for (Index i = 0; i < 6000; i += 2) left_out.push_back(i);
  const IdSet<Index> excluded(left_out.data(), left_out.size());
  std::vector<Index> chosen = {1, 499, 1};
  for (Index row = 0; row < 500; ++row) chosen.push_back(row);
  const Weights kinds[] = {
      {}, {Weights::Kind::kFloat, weights.data()}, {Weights::Kind::kMask, mask.data()}};
  for (const Weights& of_edges : kinds) {
    for (const IdSet<Index>* without : {static_cast<const IdSet<Index>*>(nullptr), &excluded}) {
      const Candidates<Index> from{rows, of_edges, without};
      for (const int64_t fanout : {-1, 0, 1, 4, 40, 1000}) {
        for (const bool replace : {false, true}) {
          const Draw draw{fanout, replace, 3};
          const auto drawn = sample(from, chosen, draw);
          EXPECT_TRUE(drawn == sample(from, chosen, draw, threads(3)));
          for (size_t i = 0; i < chosen.size(); ++i) {
            std::map<Index, Index> allowed;  // edge id to column
            from.for_each(chosen[i],
                          [&](int64_t p, double) { allowed[rows.eid(p)] = rows.indices[p]; });
            std::set<Index> seen;
            const int64_t size = drawn.offsets[i + 1] - drawn.offsets[i];
            for (int64_t e = drawn.offsets[i]; e < drawn.offsets[i + 1]; ++e) {
              ASSERT_EQ(allowed.count(drawn.eids[e]), 1);
              EXPECT_EQ(allowed[drawn.eids[e]], drawn.columns[e]);
              seen.insert(drawn.eids[e]);
            }
            const int64_t degree = allowed.size();
            if (replace && fanout >= 0) {
              EXPECT_EQ(size, degree ? fanout : 0);
            } else {
              EXPECT_EQ(size, fanout < 0 ? degree : std::min(fanout, degree));
              EXPECT_EQ(static_cast<int64_t>(seen.size()), size);
            }
          }
        }
      }
    }
  }
}

TEST(Sample, NamesRowsAndWeightsThatAreNotValid) {
  const OneRow row(3, 1);
  std::vector<int64_t> offsets(3);
  for (const int64_t wrong : {-1, 1}) {
    const std::vector<int64_t> chosen = {0, wrong};
    const Mistake mistake = sample_offsets<int64_t>({row.rows(), {}, nullptr}, chosen.data(), 2, {},
                                                    offsets.data(), {});
    EXPECT_EQ(mistake.row, 1);
  }
  for (const double wrong : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const std::vector<double> weights = {1, 1, wrong};
    const Candidates<int64_t> from{row.rows(), {Weights::Kind::kDouble, weights.data()}, nullptr};
    const Mistake mistake = sample_offsets(from, row.chosen.data(), 1, {}, offsets.data(), {});
    EXPECT_EQ(mistake.edge, 2);
    EXPECT_EQ(mistake.row, -1);
  }
}

TEST(TopK, IsASortOfEachRow) {
  const auto form = compress(random_edges<int64_t>(40, 30, 700, 0.3).list());
  const EdgeRows<int64_t> rows = form.rows();
  std::vector<double> values(700);
  for (size_t i = 0; i < values.size(); ++i) values[i] = (i * 37) % 11;
  values[3] = std::nan("");
  const auto value = [&](int64_t p) {
    const double v = values[rows.eid(p)];
    return std::isnan(v) ? -std::numeric_limits<double>::infinity() : v;
  };
  std::vector<int64_t> chosen = {1, 39, 1};
  for (int64_t row = 0; row < 40; ++row) chosen.push_back(row);
  for (const int64_t k : {-1, 0, 1, 5, 1000}) {
    for (const bool ascending : {false, true}) {
      std::vector<int64_t> offsets(chosen.size() + 1);
      ASSERT_FALSE(topk_offsets(rows, chosen.data(), chosen.size(), k, offsets.data()));
      std::vector<int64_t> columns(offsets.back()), eids(offsets.back());
      topk_rows(rows, values.data(), chosen.data(), chosen.size(), ascending, offsets.data(),
                columns.data(), eids.data(), threads(2));
      for (size_t i = 0; i < chosen.size(); ++i) {
        std::vector<int64_t> order;
        for (int64_t p = rows.begin(chosen[i]); p < rows.end(chosen[i]); ++p) order.push_back(p);
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
          return ascending ? value(a) < value(b) : value(a) > value(b);
        });
        if (k >= 0 && k < static_cast<int64_t>(order.size())) order.resize(k);
        ASSERT_EQ(offsets[i + 1] - offsets[i], static_cast<int64_t>(order.size()));
        for (size_t n = 0; n < order.size(); ++n) {
          EXPECT_EQ(eids[offsets[i] + n], rows.eid(order[n]));
          EXPECT_EQ(columns[offsets[i] + n], rows.indices[order[n]]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace smex::graph
