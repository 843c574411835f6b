#include "kernels/edge_softmax/edge_softmax.h"

#include <gtest/gtest.h>

#include "kernels/message/cpu_samples.h"

namespace smex::kernels {
using namespace cpu_tests;

namespace {

template <typename T, typename I>
struct Scores {
  const SampleGraph<I>& graph;
  int64_t elements;
  bool with_eids = true;
  std::vector<T> score;
  std::vector<T> grad = {};  // empty: forward

  double score_at(int64_t k, int64_t i) const { return number(score[place(k, i)]); }
  double grad_at(int64_t k, int64_t i) const { return number(grad[place(k, i)]); }
  int64_t place(int64_t k, int64_t i) const { return graph.eid(k, with_eids) * elements + i; }
};

/// The formulas of the header, one element after the other.
template <typename T, typename I>
std::vector<double> expected_of(const Scores<T, I>& x) {
  std::vector<double> out(x.score.size());
  for (int64_t row = 0; row < x.graph.num_rows(); ++row) {
    const int64_t first = x.graph.indptr[row], last = x.graph.indptr[row + 1];
    for (int64_t i = 0; i < x.elements; ++i) {
      double largest = -INFINITY, sum = 0;
      for (int64_t k = first; k < last; ++k) {
        const double score = x.score_at(k, i);
        if (score > largest || std::isnan(score)) largest = score;
      }
      for (int64_t k = first; k < last; ++k)
        sum += x.grad.empty() ? std::exp(x.score_at(k, i) - largest)
                              : x.score_at(k, i) * x.grad_at(k, i);
      for (int64_t k = first; k < last; ++k)
        out[x.place(k, i)] = x.grad.empty() ? std::exp(x.score_at(k, i) - largest) / sum
                                            : x.score_at(k, i) * (x.grad_at(k, i) - sum);
    }
  }
  return out;
}

template <typename T, typename I>
struct Kernel {
  const char* isa;
  void (*pieces)(const EdgeSoftmaxTask<T, I>&, int64_t, int64_t);
  void (*finish)(const EdgeSoftmaxTask<T, I>&);
  void (*shared)(const EdgeSoftmaxTask<T, I>&, int64_t, int64_t);
};

template <typename T, typename I>
std::vector<Kernel<T, I>> kernels() {
  const auto pieces = SMEX_SUPPORTED(edge_softmax_pieces<T, I>);
  const auto finish = SMEX_SUPPORTED(edge_softmax_finish<T, I>);
  const auto shared = SMEX_SUPPORTED(edge_softmax_shared<T, I>);
  std::vector<Kernel<T, I>> result;
  for (size_t i = 0; i < pieces.size(); ++i)
    result.push_back({pieces[i].isa, pieces[i].call, finish[i].call, shared[i].call});
  return result;
}

/// Runs the pieces from the last to the first.
template <typename T, typename I>
std::vector<double> run(const Kernel<T, I>& kernel, const Scores<T, I>& x, int64_t num_pieces) {
  const Misaligned<T> score(x.score), grad(x.grad);
  Guarded<T> out(static_cast<int64_t>(x.score.size()));
  std::vector<accumulate_t<T>> shared(num_pieces * 4 * x.elements, NAN);
  EdgeSoftmaxTask<T, I> task;
  task.rows = x.graph.rows(x.with_eids);
  task.elements = x.elements;
  task.score = score.data();
  task.grad = x.grad.empty() ? nullptr : grad.data();
  task.out = out.data();
  task.num_pieces = num_pieces;
  task.shared = shared.data();
  for (int64_t p = num_pieces; p-- > 0;) kernel.pieces(task, p, p + 1);
  if (num_pieces > 1) {
    kernel.finish(task);
    for (int64_t p = num_pieces; p-- > 0;) kernel.shared(task, p, p + 1);
  }
  EXPECT_TRUE(out.is_intact());
  return out.numbers();
}

template <typename T>
constexpr double kLeast = std::is_same_v<T, Half> ? 0x1p-24 : 0;  // spacing of the smallest numbers

template <typename T, typename I>
void check(const Scores<T, I>& x, const std::vector<int64_t>& piece_counts) {
  const std::vector<double> expected = expected_of(x);
  // Sums and exponentials are float's for the small types: one rounding of T is what counts.
  // Others see the roundings of a sum, which grow with its length.
  const double ulps = kEpsilon<T> > 1e-6 ? 0.6 : 16 + static_cast<double>(x.graph.num_edges()) / 32;
  for (const Kernel<T, I>& kernel : kernels<T, I>()) {
    for (const int64_t pieces : piece_counts) {
      SCOPED_TRACE(std::string(kernel.isa) + "; graph: " + x.graph.name +
                   (x.with_eids ? ", eids; " : "; ") + std::to_string(x.elements) + " elements; " +
                   (x.grad.empty() ? "forward; " : "gradient; ") + std::to_string(pieces) +
                   " pieces");
      const std::vector<double> found = run(kernel, x, pieces);
      for (size_t i = 0; i < expected.size(); ++i)
        ASSERT_TRUE(std::abs(found[i] - expected[i]) <= kLeast<T> ||
                    near<T>(found[i], expected[i], ulps))
            << "element " << i << ": found " << found[i] << ", expected " << expected[i];
    }
  }
}

/// Forward and gradient. Quarters make the gradient exact before it is rounded.
template <typename T, typename I>
void check_both(const SampleGraph<I>& graph, int64_t elements, bool with_eids,
                const std::vector<int64_t>& piece_counts) {
  const int64_t count = graph.num_edges() * elements;
  Scores<T, I> x{graph, elements, with_eids, quarters<T>(count, 1)};
  check(x, piece_counts);
  x.grad = quarters<T>(count, 2);
  if (count > 0 && !::testing::Test::HasFatalFailure()) check(x, piece_counts);
}

template <typename Pair>
class EdgeSoftmaxKernel : public ::testing::Test {};
TYPED_TEST_SUITE(EdgeSoftmaxKernel, AllTypes, TypeNames);

TYPED_TEST(EdgeSoftmaxKernel, EverySize) {
  const auto graph = small_graph<typename TypeParam::I>();
  for (const int64_t n : sizes<typename TypeParam::I>())
    for (const bool with_eids : {false, true})
      if (!this->HasFatalFailure()) check_both<typename TypeParam::T>(graph, n, with_eids, {1, 7});
}

TYPED_TEST(EdgeSoftmaxKernel, EveryDivision) {
  for (const auto& graph : sample_graphs<typename TypeParam::I>())
    for (const int64_t n : {1, 3, 8, 16})
      for (const bool with_eids : {false, true})
        if (!this->HasFatalFailure())
          check_both<typename TypeParam::T>(graph, n, with_eids, kPieceCounts);
}

// Rows that do not fit a block of numbers, and blocks of a single edge.
TYPED_TEST(EdgeSoftmaxKernel, LongRows) {
  using I = typename TypeParam::I;
  const SampleGraph<I> hub("long row", {1, 4500, 2}), wide("wide rows", {3, 0, 1});
  for (const int64_t n : {1, 2, 3, 8})
    if (!this->HasFatalFailure()) check_both<typename TypeParam::T>(hub, n, true, {1, 5});
  for (const int64_t n : {2047, 2048, 2049, 5000})
    if (!this->HasFatalFailure()) check_both<typename TypeParam::T>(wide, n, true, {1, 3});
}

// Rows of one number per edge are done many at a time: several times as many as fit, with long
// rows, and one that just fits, between them.
TYPED_TEST(EdgeSoftmaxKernel, ManyShortRows) {
  using I = typename TypeParam::I;
  std::vector<int64_t> degrees(2000);
  for (size_t i = 0; i < degrees.size(); ++i) degrees[i] = static_cast<int64_t>(i * 7 % 6);
  for (const auto& [row, degree] : {std::pair{500, 2048}, {501, 2049}, {700, 40}, {1999, 2047}})
    degrees[row] = degree;
  const SampleGraph<I> graph("many short rows", degrees);
  for (const bool with_eids : {false, true})
    if (!this->HasFatalFailure())
      check_both<typename TypeParam::T>(graph, 1, with_eids, {1, 3, 40});
}

// The largest score is found in the first, the last or a middle block; most others vanish.
TYPED_TEST(EdgeSoftmaxKernel, LargeScores) {
  using T = typename TypeParam::T;
  using I = typename TypeParam::I;
  const SampleGraph<I> graph("long row", {1, 2500, 2});
  const T low = exactly<T>(-1024), high = exactly<T>(960), highest = exactly<T>(964);
  for (const int64_t n : {1, 3, 4}) {
    for (const int64_t peak : {0, 1000, 2499}) {
      std::vector<T> scores(graph.num_edges() * n, low);
      for (size_t i = 0; i < scores.size(); i += 5) scores[i] = high;
      for (int64_t i = 0; i < n; ++i) scores[(1 + peak) * n + i] = highest;
      if (!this->HasFatalFailure()) check(Scores<T, I>{graph, n, false, scores}, {1, 5});
    }
  }
}

TYPED_TEST(EdgeSoftmaxKernel, NotANumberAndInfinity) {
  using T = typename TypeParam::T;
  using I = typename TypeParam::I;
  const SampleGraph<I> graph("rows", {0, 2, 1, 40, 3, 2, 2500});
  const double special[] = {-INFINITY, INFINITY, 0.0 / 0.0};
  for (const int64_t n : {1, 3, 8}) {
    for (const double number : special) {
      const T value = exactly<T>(number);
      std::vector<T> scores = quarters<T>(graph.num_edges() * n, 1);
      for (int64_t i = 0; i < 3 * n; ++i) scores[i] = value;  // whole rows
      scores[10 * n] = scores[46 * n] = scores[2000 * n] = value;
      if (!this->HasFatalFailure()) check(Scores<T, I>{graph, n, false, scores}, {1, 3, 64});
    }
  }
}

}  // namespace
}  // namespace smex::kernels
