// The CUDA kernels of smex::edge_softmax, run thread by thread.
#include "../message/cuda_emulator.h"
//
#include "kernels/edge_softmax/cuda/edge_softmax.cuh"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "../message/cuda_samples.h"

namespace smex::kernels {
namespace {

using namespace cuda_samples;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename T>
std::vector<T> random_numbers(size_t count, float low, float high) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<T> result(count);
  for (T& x : result) narrow(static_cast<accumulate_t<T>>(uniform(random)), x);
  return result;
}

template <typename T, typename I>
std::vector<T> run(const SampleGraph<I>& graph, int64_t n, const std::vector<T>& score,
                   const std::vector<T>* grad, int64_t pieces) {
  std::vector<T> out(score.size());
  std::vector<accumulate_t<T>> shared(pieces * 4 * n,
                                      std::numeric_limits<accumulate_t<T>>::quiet_NaN());
  EdgeSoftmaxTask<T, I> task;
  task.rows = graph.rows();
  task.elements = n;
  task.score = score.data();
  task.grad = grad ? grad->data() : nullptr;
  task.out = out.data();
  task.num_pieces = pieces;
  task.shared = shared.data();
  edge_softmax_cuda(task, nullptr);
  return out;
}

/// Calls `check(ids)` with the edges of each row.
template <typename I, typename Check>
void for_each_row(const SampleGraph<I>& graph, const Check& check) {
  for (int64_t row = 0; row < graph.rows().num_rows; ++row) {
    std::vector<int64_t> ids;
    for (int64_t k = graph.indptr[row]; k < graph.indptr[row + 1]; ++k) ids.push_back(graph.eid(k));
    check(ids);
  }
}

template <typename T, typename I>
void check_forward(const SampleGraph<I>& graph, int64_t n, int64_t pieces) {
  const auto score = random_numbers<T>(graph.indices.size() * n, -20, 20);
  const auto out = run<T, I>(graph, n, score, nullptr, pieces);
  for_each_row(graph, [&](const std::vector<int64_t>& ids) {
    for (int64_t i = 0; i < n; ++i) {
      double largest = -kInfinity, sum = 0;
      for (const int64_t e : ids)
        largest = std::max(largest, static_cast<double>(widen(score[e * n + i])));
      for (const int64_t e : ids) sum += std::exp(widen(score[e * n + i]) - largest);
      for (const int64_t e : ids)
        ASSERT_NEAR(widen(out[e * n + i]), std::exp(widen(score[e * n + i]) - largest) / sum,
                    kTolerance<T>);
    }
  });
}

template <typename T, typename I>
void check_backward(const SampleGraph<I>& graph, int64_t n, int64_t pieces) {
  const auto y = random_numbers<T>(graph.indices.size() * n, 0, 1);
  const auto grad = random_numbers<T>(graph.indices.size() * n, -1, 0.5f);
  const auto out = run<T, I>(graph, n, y, &grad, pieces);
  for_each_row(graph, [&](const std::vector<int64_t>& ids) {
    for (int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (const int64_t e : ids) sum += double{widen(y[e * n + i])} * widen(grad[e * n + i]);
      for (const int64_t e : ids)
        ASSERT_NEAR(widen(out[e * n + i]), widen(y[e * n + i]) * (widen(grad[e * n + i]) - sum),
                    kTolerance<T> * (1 + std::fabs(sum)));
    }
  });
}

template <typename T, typename I>
void check_all(bool has_eids) {
  for (const auto& degrees : {hub_degrees(), {0, 0, 1, 0}, {40, 30, 70}, {1, 2, 1, 0, 2, 1}}) {
    const SampleGraph<I> graph(degrees, has_eids);
    const int64_t steps = graph.rows().num_rows + graph.rows().num_edges;
    for (const int64_t n : {1, 3, 8, 33}) {
      for (const int64_t pieces : {1, 5, 120}) {
        check_forward<T, I>(graph, n, std::min(pieces, steps));
        check_backward<T, I>(graph, n, std::min(pieces, steps));
      }
    }
  }
}

TEST(EdgeSoftmaxCuda, Float) { check_all<float, int32_t>(/*has_eids=*/true); }
TEST(EdgeSoftmaxCuda, DoubleInEdgeOrder) { check_all<double, int64_t>(/*has_eids=*/false); }
TEST(EdgeSoftmaxCuda, BFloat16) { check_all<BFloat16, int64_t>(/*has_eids=*/true); }
TEST(EdgeSoftmaxCuda, HalfInEdgeOrder) { check_all<Half, int32_t>(/*has_eids=*/false); }

TEST(SoftmaxStatistics, MergesInAnyOrder) {
  const std::vector<double> scores = {-3, 700, -kInfinity, 2, 700, -800};
  SoftmaxStatistics<double> all, front, back;
  for (size_t i = 0; i < scores.size(); ++i) {
    all.add(scores[i]);
    (i < 2 ? front : back).add(scores[i]);
  }
  front.merge(back);
  EXPECT_EQ(all.largest, 700);
  EXPECT_DOUBLE_EQ(all.sum, 2);
  EXPECT_EQ(front.largest, all.largest);
  EXPECT_DOUBLE_EQ(front.sum, all.sum);
  EXPECT_DOUBLE_EQ(all.result(700), 0.5);
  EXPECT_EQ(all.result(-kInfinity), 0);
}

TEST(SoftmaxStatistics, NothingButMinusInfinityIsNoNumberAndNaNStays) {
  SoftmaxStatistics<float> none;
  none.merge(SoftmaxStatistics<float>());
  EXPECT_EQ(none.sum, 0);
  none.add(-std::numeric_limits<float>::infinity());
  EXPECT_EQ(none.sum, 0);
  EXPECT_TRUE(std::isnan(none.result(-std::numeric_limits<float>::infinity())));
  none.add(NAN);
  none.add(1);
  EXPECT_TRUE(std::isnan(none.sum));
  EXPECT_TRUE(std::isnan(none.result(1)));
}

}  // namespace
}  // namespace smex::kernels
