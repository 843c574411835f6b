// The CUDA kernels of smex::spmm, run thread by thread.
#include "../message/cuda_emulator.h"
//
#include "kernels/spmm/cuda/spmm.cuh"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "../message/cuda_samples.h"

namespace smex::kernels {
namespace {

using namespace cuda_samples;

struct Case {
  std::string message;
  std::vector<FeatureShape> shapes;
};

const std::vector<Case> kCases = {
    // Copies: vectors of every width, several tiles, single numbers.
    {"u0", {{}}},
    {"u0", {{3}}},
    {"u0", {{6}}},
    {"u0", {{8}}},
    {"e0", {{16}}},
    {"u0", {{300}}},
    // Products: one weight, one for each head, full, both orders.
    {"u0 * e1", {{8}, {}}},
    {"e0 * u1", {{1}, {5}}},
    {"u0 * e1", {{4, 8}, {4, 1}}},
    {"u0 * e1", {{3, 5}, {3, 1}}},
    {"u0 * e1", {{12}, {12}}},
    {"u0 * e1", {{7}, {7}}},
    // What has no kernel of its own.
    {"v0", {{4}}},
    {"u0 * v1", {{4}, {4}}},
    {"u0 * e1", {{2, 4}, {4}}},
    {"u0 - e1", {{2, 1, 3}, {5, 1}}},
    {"exp(leaky_relu(u0 - v1, 0.2)) * e2 + 1.5", {{5}, {5}, {1}}},
    {"dot(u0, v1)", {{6}, {6}}},
    {"dot(u0, v1)", {{3, 40}, {3, 40}}},
    {"dot(u0, e1) + e2", {{2, 5}, {5}, {1}}},
};

const std::vector<Case> kSumsInside = {
    {"dot(u0, v1) * u0", {{6}, {6}}},
    {"dot(u0, v1) * u0", {{2, 40}, {2, 40}}},
    {"sigmoid(dot(u0, v1)) * sum_last(u0 / dot(u0, u0)) * e2", {{2, 5}, {2, 5}, {5}}},
    {"u0 * sum_last(e1)", {{4}, {2, 1}}},
};

template <typename T, typename I>
class Spmm {
 public:
  using C = accumulate_t<T>;

  Spmm(const Case& test, const SampleGraph<I>& graph)
      : graph_(graph),
        message_(parse_message(test.message)),
        operands_(message_, graph, test.shapes),
        program_(compile(message_, test.shapes)),
        shapes_(test.shapes) {}

  int64_t n() const { return program_.out_elements; }

  void run(Reduce reduce, int64_t pieces, bool has_winner) {
    const int64_t rows = graph_.rows().num_rows;
    out.assign(rows * n(), T{});
    winner.assign(has_winner ? rows * n() : 0, I(-7));
    std::vector<C> shared(pieces * 2 * n(), std::numeric_limits<C>::quiet_NaN());
    std::vector<I> shared_winner(has_winner ? shared.size() : 0, I(-9));
    const auto pointers = operands_.pointers();
    SpmmTask<T, I> task;
    task.rows = graph_.rows();
    task.program = &program_;
    task.operands = pointers.data();
    task.reduce = reduce;
    narrow(C(0.5), task.empty);
    task.out = out.data();
    if (has_winner) task.winner = winner.data();
    task.num_pieces = pieces;
    task.shared = shared.data();
    task.shared_winner = shared_winner.data();
    const auto device = to_device(program_, shapes_);
    ASSERT_TRUE(device.has_value());
    spmm_cuda(task, *device, nullptr);
  }

  void expect_sums(Reduce reduce) const {
    for_each_row([&](int64_t row, const std::vector<std::vector<double>>& messages) {
      for (int64_t i = 0; i < n(); ++i) {
        double sum = 0, magnitude = 1;
        for (const auto& m : messages) {
          sum += m[i];
          magnitude += std::fabs(m[i]);
        }
        const double degree = static_cast<double>(messages.size());
        const bool divides = reduce == Reduce::kMean && degree > 0;
        ASSERT_NEAR(widen(out[row * n() + i]), divides ? sum / degree : sum,
                    kTolerance<T> * magnitude / (divides ? degree : 1))
            << to_string(message_) << " row " << row << " element " << i;
      }
    });
  }

  void expect_extrema(Reduce reduce) const {
    for_each_row([&](int64_t row, const std::vector<std::vector<double>>& messages) {
      for (int64_t i = 0; i < n(); ++i) {
        const double found = widen(out[row * n() + i]);
        if (messages.empty()) {
          EXPECT_EQ(found, 0.5);
          EXPECT_TRUE(winner.empty() || winner[row * n() + i] == -1);
          continue;
        }
        double best = messages[0][i];
        for (const auto& m : messages)
          best = reduce == Reduce::kMax ? std::max(best, m[i]) : std::min(best, m[i]);
        ASSERT_NEAR(found, best, kTolerance<T> * (1 + std::fabs(best)));
        if (winner.empty()) continue;
        const int64_t place = int64_t{winner[row * n() + i]} - graph_.indptr[row];
        ASSERT_GE(place, 0);
        ASSERT_LT(place, static_cast<int64_t>(messages.size()));
        ASSERT_NEAR(messages[place][i], best, kTolerance<C> * (1 + std::fabs(best)));
      }
    });
  }

  /// The winners must be the first ones, where messages can be compared exactly.
  void expect_first_winners(Reduce reduce) const {
    for_each_row([&](int64_t row, const std::vector<std::vector<double>>& messages) {
      for (int64_t i = 0; i < n() && !messages.empty(); ++i) {
        size_t best = 0;
        for (size_t k = 1; k < messages.size(); ++k)
          if (reduce == Reduce::kMax ? messages[k][i] > messages[best][i]
                                     : messages[k][i] < messages[best][i])
            best = k;
        ASSERT_EQ(winner[row * n() + i], graph_.indptr[row] + static_cast<int64_t>(best));
      }
    });
  }

  std::vector<T> out;
  std::vector<I> winner;

 private:
  template <typename Check>
  void for_each_row(const Check& check) const {
    const PlainMessage<T> plain(message_, operands_);
    FeatureShape full = shape_of(message_, shapes_);
    for (int64_t row = 0; row < graph_.rows().num_rows; ++row) {
      std::vector<std::vector<double>> messages;
      for (int64_t k = graph_.indptr[row]; k < graph_.indptr[row + 1]; ++k)
        messages.push_back(
            summed_to(plain.of(graph_.indices[k], row, graph_.eid(k)), plain.whole(), full, full));
      check(row, messages);
    }
  }

  const SampleGraph<I>& graph_;
  Message message_;
  SampleOperands<T> operands_;
  MessageProgram program_;
  std::vector<FeatureShape> shapes_;
};

template <typename T, typename I>
void check_sums(const std::vector<Case>& cases, bool has_eids) {
  const SampleGraph<I> graph(hub_degrees(), has_eids);
  for (const Case& test : cases) {
    Spmm<T, I> spmm(test, graph);
    // One piece, some, and so many that the hub's run takes a block.
    for (const int64_t pieces : {1, 5, 120}) {
      const Reduce reduce = pieces == 5 ? Reduce::kMean : Reduce::kSum;
      spmm.run(reduce, pieces, /*has_winner=*/false);
      spmm.expect_sums(reduce);
    }
  }
}

template <typename T, typename I>
void check_extrema(const std::vector<Case>& cases, bool has_eids) {
  const SampleGraph<I> graph(hub_degrees(), has_eids);
  for (const Case& test : cases) {
    Spmm<T, I> spmm(test, graph);
    for (const int64_t pieces : {1, 5, 120}) {
      const Reduce reduce = pieces == 5 ? Reduce::kMin : Reduce::kMax;
      spmm.run(reduce, pieces, /*has_winner=*/true);
      spmm.expect_extrema(reduce);
      if (parse_message(test.message)->op == MessageOp::kOperand) spmm.expect_first_winners(reduce);
    }
  }
}

// A row times numbers of both ends and the edge.
const std::vector<Case> kWeighted = {
    {"u0 * u1 * v2", {{8}, {1}, {1}}},
    {"u0 * u1 * v2", {{5}, {}, {}}},
    {"v0 * u1 * e2 * u3", {{}, {12}, {}, {}}},
    {"e0 * v1", {{16}, {1}}},
    {"u0 * v1 * v2 * v3", {{4}, {}, {}, {}}},
    {"u0 * e1 * e2 * e3", {{6}, {}, {}, {}}},
    {"u0 * v1 * v2 * v3 * v4", {{4}, {}, {}, {}, {}}},  // more than there is room for
    {"u0 * v1", {{2, 3}, {3}}},                         // no numbers
};

TEST(SpmmCuda, WeightedSumsAndMeans) {
  check_sums<float, int32_t>(kWeighted, /*has_eids=*/true);
  check_sums<double, int64_t>(kWeighted, /*has_eids=*/false);
  check_sums<Half, int32_t>(kWeighted, /*has_eids=*/true);
}

TEST(SpmmCuda, SumsAndMeansOfFloat) {
  check_sums<float, int32_t>(kCases, /*has_eids=*/true);
  check_sums<float, int64_t>(kSumsInside, /*has_eids=*/true);
}
TEST(SpmmCuda, SumsAndMeansOfDoubleInEdgeOrder) {
  check_sums<double, int64_t>(kCases, /*has_eids=*/false);
}
TEST(SpmmCuda, SumsAndMeansOfBFloat16) { check_sums<BFloat16, int32_t>(kCases, true); }
TEST(SpmmCuda, SumsAndMeansOfHalf) { check_sums<Half, int64_t>(kCases, true); }

TEST(SpmmCuda, ExtremaOfFloat) { check_extrema<float, int64_t>(kCases, /*has_eids=*/true); }
TEST(SpmmCuda, ExtremaOfDoubleInEdgeOrder) { check_extrema<double, int32_t>(kCases, false); }
TEST(SpmmCuda, ExtremaOfBFloat16) { check_extrema<BFloat16, int64_t>(kCases, true); }
TEST(SpmmCuda, ExtremaOfHalf) { check_extrema<Half, int32_t>(kCases, true); }

TEST(SpmmCuda, ExtremaWithoutWinners) {
  const SampleGraph<int32_t> graph(hub_degrees());
  for (const Case& test : kCases) {
    Spmm<float, int32_t> spmm(test, graph);
    spmm.run(Reduce::kMax, 120, /*has_winner=*/false);
    spmm.expect_extrema(Reduce::kMax);
  }
}

TEST(SpmmCuda, RowsWithoutEdges) {
  const SampleGraph<int32_t> graph({0, 0, 0, 0, 0, 0, 0});
  for (const int64_t pieces : {1, 3, 7}) {
    Spmm<float, int32_t> spmm({"u0", {{4}}}, graph);
    spmm.run(Reduce::kSum, pieces, false);
    spmm.expect_sums(Reduce::kSum);
    spmm.run(Reduce::kMin, pieces, true);
    spmm.expect_extrema(Reduce::kMin);
  }
}

TEST(SpmmCuda, ResultsDoNotDependOnTheRun) {
  const SampleGraph<int32_t> graph(hub_degrees());
  Spmm<float, int32_t> once({"u0 * e1", {{8}, {}}}, graph), again({"u0 * e1", {{8}, {}}}, graph);
  once.run(Reduce::kSum, 120, false);
  again.run(Reduce::kSum, 120, false);
  EXPECT_EQ(once.out, again.out);
}

}  // namespace
}  // namespace smex::kernels
