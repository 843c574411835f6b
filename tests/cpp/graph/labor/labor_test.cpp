#include "graph/labor/labor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "../edges.h"

namespace smex::graph {
namespace {

template <typename Index>
WeightedEdges<Index> sample(const Candidates<Index>& from, const std::vector<Index>& chosen,
                            const LaborDraw& draw, const Workers& workers = {}) {
  WeightedEdges<Index> result;
  EXPECT_FALSE(sample_labor(from, chosen.data(), static_cast<int64_t>(chosen.size()), draw, result,
                            workers));
  return result;
}

/// How often each edge of some rows is drawn, as a share of many seeds.
std::vector<double> shares(const Candidates<int64_t>& from, const std::vector<int64_t>& chosen,
                           LaborDraw draw, int times) {
  std::vector<double> result(from.rows.num_edges);
  for (int n = 0; n < times; ++n) {
    draw.seed = n;
    for (const int64_t eid : sample(from, chosen, draw).eids) result[eid] += 1.0 / times;
  }
  return result;
}

TEST(Labor, RowsThatShareColumnsDrawTheSame) {
  const std::vector<int64_t> indptr = {0, 4, 8}, indices = {0, 1, 2, 3, 0, 1, 2, 3};
  const Candidates<int64_t> from{{2, 8, indptr.data(), indices.data(), nullptr}, {}, nullptr};
  const std::vector<int64_t> chosen = {0, 1};
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto drawn = sample(from, chosen, {2, 0, seed});
    const auto middle = drawn.columns.begin() + drawn.offsets[1];
    EXPECT_EQ(std::vector<int64_t>(drawn.columns.begin(), middle),
              std::vector<int64_t>(middle, drawn.columns.end()));
  }
}

TEST(Labor, DrawsTheFanoutOnAverage) {
  const auto form = compress(random_edges<int64_t>(20, 50, 300, 0.3).list());
  const Candidates<int64_t> from{form.rows(), {}, nullptr};
  std::vector<int64_t> chosen;
  for (int64_t row = 0; row < 20; ++row) chosen.push_back(row);
  const int kTimes = 20000;
  const auto share = shares(from, chosen, {4}, kTimes);
  for (int64_t row = 0; row < 20; ++row) {
    const double degree = form.indptr[row + 1] - form.indptr[row];
    for (int64_t p = form.indptr[row]; p < form.indptr[row + 1]; ++p) {
      const double expected = std::min(1.0, 4 / degree);
      const double deviation = std::sqrt(expected * (1 - expected) / kTimes);
      EXPECT_NEAR(share[form.eids[p]], expected, 5 * deviation + 1e-12);
    }
  }
}

TEST(Labor, WeightsDecideHowLikelyAnEdgeIs) {
  const std::vector<int64_t> indptr = {0, 5}, indices = {0, 1, 2, 3, 4};
  const std::vector<double> weights = {1, 2, 3, 0, 60};
  const Candidates<int64_t> from{{1, 5, indptr.data(), indices.data(), nullptr},
                                 {Weights::Kind::kDouble, weights.data()},
                                 nullptr};
  // The last is certain; one of the others in proportion to 1, 2, 3.
  const auto share = shares(from, {0}, {2}, 20000);
  const std::vector<double> expected = {1.0 / 6, 2.0 / 6, 3.0 / 6, 0, 1};
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(share[i], expected[i], 0.02) << i;
}

TEST(Labor, ImportanceSamplingDrawsFewerColumnsWithTheSameVariance) {
  const auto form = compress(random_edges<int64_t>(20, 30, 400, 0.05).list());
  const Candidates<int64_t> from{form.rows(), {}, nullptr};
  std::vector<int64_t> chosen;
  for (int64_t row = 0; row < 20; ++row) chosen.push_back(row);
  double columns[3] = {};
  const int64_t iterations[3] = {0, 1, -1};
  for (int n = 0; n < 3; ++n) {
    for (uint64_t seed = 0; seed < 500; ++seed) {
      const auto drawn = sample(from, chosen, {5, iterations[n], seed});
      columns[n] += std::set<int64_t>(drawn.columns.begin(), drawn.columns.end()).size();
    }
  }
  EXPECT_LT(columns[1], columns[0]);
  EXPECT_LT(columns[2], columns[1]);
  // Σ (1 / p - 1) of a row is d (d / k - 1) in each of them.
  for (const int64_t of : iterations) {
    const auto share = shares(from, chosen, {5, of}, 4000);
    for (const int64_t row : {1, 7, 15}) {
      const double degree = form.indptr[row + 1] - form.indptr[row];
      double variance = 0;
      for (int64_t p = form.indptr[row]; p < form.indptr[row + 1]; ++p) {
        variance += 1 / share[form.eids[p]] - 1;
      }
      const double expected = std::max(0.0, degree * (degree / 5 - 1));
      EXPECT_NEAR(variance, expected, 0.1 * expected) << of << " row " << row;
    }
  }
}

TEST(Labor, ColumnsThatARowTakesInAnyCaseAreTakenByOthers) {
  // Row 0 has column 0 alone and would take four times as many; π is 4 there and 4 / 8 elsewhere.
  const std::vector<int64_t> indptr = {0, 1, 9}, indices = {0, 0, 1, 2, 3, 4, 5, 6, 7};
  const Candidates<int64_t> from{{2, 9, indptr.data(), indices.data(), nullptr}, {}, nullptr};
  const int kTimes = 20000;
  const auto share = shares(from, {0, 1}, {4, 1}, kTimes);
  // With column 0 certain, Σ 1 / p = 64 / 4 leaves 15 for the seven others.
  const double expected = 7.0 / 15;
  EXPECT_NEAR(share[0], 1, 1e-12);
  EXPECT_NEAR(share[1], 1, 1e-12);
  for (int e = 2; e < 9; ++e) EXPECT_NEAR(share[e], expected, 5 * 0.5 / std::sqrt(kTimes)) << e;
}

TEST(Labor, ImportancesHaveMeanOneAndAreInverseProbabilities) {
  const std::vector<int64_t> indptr = {0, 4}, indices = {0, 1, 2, 3};
  const std::vector<float> weights = {1, 2, 3, 4};
  const Candidates<int64_t> from{{1, 4, indptr.data(), indices.data(), nullptr},
                                 {Weights::Kind::kFloat, weights.data()},
                                 nullptr};
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto drawn = sample(from, {0}, {2, 0, seed});
    // Drawn in proportion to the weight, weight / probability is the same for all.
    for (const float importance : drawn.importances) EXPECT_NEAR(importance, 1, 1e-5);
  }
}

TEST(Labor, NumbersChangeSlowlyFromOneSeedToTheNext) {
  const auto form = compress(random_edges<int64_t>(100, 1000, 5000).list());
  const Candidates<int64_t> from{form.rows(), {}, nullptr};
  std::vector<int64_t> chosen;
  for (int64_t row = 0; row < 100; ++row) chosen.push_back(row);
  const auto drawn = [&](double share) {
    const auto edges = sample(from, chosen, {10, 0, 1, 2, share}).eids;
    return std::set<int64_t>(edges.begin(), edges.end());
  };
  const auto common = [&](const std::set<int64_t>& a, const std::set<int64_t>& b) {
    int64_t count = 0;
    for (const int64_t eid : a) count += b.count(eid);
    return count;
  };
  const auto half = drawn(0.5);
  EXPECT_GT(common(half, drawn(0.6)), common(half, drawn(1)) + 100);
  EXPECT_NEAR(static_cast<double>(half.size()), 1000, 120);
  EXPECT_TRUE(drawn(0.3) == drawn(0.3));
}

TEST(Labor, IsTheSameForAnyWorkers) {
  const auto form = compress(random_edges<int32_t>(3000, 900, 40000, 0.1).list());
  const Candidates<int32_t> from{form.rows(), {}, nullptr};
  std::vector<int32_t> chosen;
  for (int32_t row = 0; row < 3000; ++row) chosen.push_back(row);
  for (const int64_t fanout : {-1, 0, 3}) {
    for (const int64_t iterations : {0, 2}) {
      const LaborDraw draw{fanout, iterations, 5};
      const auto one = sample(from, chosen, draw), three = sample(from, chosen, draw, threads(3));
      EXPECT_EQ(one.eids, three.eids);
      EXPECT_EQ(one.importances, three.importances);
      if (fanout <= 0) {
        EXPECT_EQ(one.eids.size(), fanout == 0 ? 0 : 40000);
      }
    }
  }
}

TEST(Labor, EqualWeightsAreNone) {
  const auto form = compress(random_edges<int64_t>(300, 90, 6000, 0.1).list());
  const std::vector<float> ones(6000, 1.0F);
  const Candidates<int64_t> plain{form.rows(), {}, nullptr};
  const Candidates<int64_t> equal{form.rows(), {Weights::Kind::kFloat, ones.data()}, nullptr};
  const std::vector<int64_t> chosen = {5, 1, 299, 5};
  for (const int64_t fanout : {-1, 0, 1, 7, 100}) {
    for (const double share : {0.0, 0.4}) {
      const LaborDraw draw{fanout, 0, 3, 4, share};
      const auto a = sample(plain, chosen, draw), b = sample(equal, chosen, draw);
      EXPECT_EQ(a.offsets, b.offsets);
      EXPECT_EQ(a.columns, b.columns);
      EXPECT_EQ(a.eids, b.eids);
      EXPECT_EQ(a.importances, b.importances);
    }
  }
}

TEST(Labor, NamesWhatIsNotValid) {
  const std::vector<int64_t> indptr = {0, 2}, indices = {0, 1};
  const std::vector<float> weights = {1, -1};
  const EdgeRows<int64_t> rows{1, 2, indptr.data(), indices.data(), nullptr};
  WeightedEdges<int64_t> out;
  const std::vector<int64_t> chosen = {0, 1};
  EXPECT_EQ(sample_labor<int64_t>({rows, {}, nullptr}, chosen.data(), 2, {1}, out, {}).row, 1);
  const Candidates<int64_t> from{rows, {Weights::Kind::kFloat, weights.data()}, nullptr};
  EXPECT_EQ(sample_labor(from, chosen.data(), 1, {1}, out, {}).edge, 1);
}

}  // namespace
}  // namespace smex::graph
