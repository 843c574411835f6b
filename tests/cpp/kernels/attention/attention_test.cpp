#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <functional>

#include "kernels/gat/gat.h"
#include "kernels/message/cpu_sample_call.h"

namespace smex::kernels {
using namespace cpu_tests;

namespace {

/// Values that attention reads, and the score of head h at position k, which belongs to `row`.
template <typename T, typename I>
struct Sample {
  const SampleGraph<I>& graph;
  int64_t heads, inner;
  std::vector<T> value;  // [columns, heads, inner]
  std::function<double(int64_t row, int64_t k, int64_t h)> score;

  double value_at(int64_t k, int64_t h, int64_t d) const {
    return number(value[(graph.indices[k] * heads + h) * inner + d]);
  }
};

struct Result {
  std::vector<double> out, largest, sum;
};

/// By the definition in the header.
template <typename T, typename I>
Result expected_of(const Sample<T, I>& x) {
  Result result;
  for (int64_t row = 0; row < x.graph.num_rows(); ++row) {
    const int64_t first = x.graph.indptr[row], last = x.graph.indptr[row + 1];
    for (int64_t h = 0; h < x.heads; ++h) {
      double largest = first < last ? -INFINITY : 0, sum = first < last ? 0 : 1;
      for (int64_t k = first; k < last; ++k) largest = std::max(largest, x.score(row, k, h));
      std::vector<double> total(x.inner, 0);
      for (int64_t k = first; k < last; ++k) {
        const double weight = std::exp(x.score(row, k, h) - largest);
        sum += weight;
        for (int64_t d = 0; d < x.inner; ++d) total[d] += weight * x.value_at(k, h, d);
      }
      for (const double each : total) result.out.push_back(each / sum);
      result.largest.push_back(largest);
      result.sum.push_back(sum);
    }
  }
  return result;
}

/// Values lie between -2 and 2. Sums are kept in float for the small types, which
/// round once; others see the roundings of sums of thousands.
template <typename T>
void expect_near(const std::vector<double>& found, const std::vector<double>& expected,
                 double scale, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  const double tolerance = (kEpsilon<T> > 1e-6 ? 1 : 256) * kEpsilon<T> * scale;
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_LE(std::abs(found[i] - expected[i]), tolerance * std::max(1.0, std::abs(expected[i])))
        << what << " " << i << ": found " << found[i] << ", expected " << expected[i];
}

template <typename T, typename I>
void check_forward(const Sample<T, I>& x, int64_t num_pieces,
                   const std::function<void(AttentionTask<T, I>&)>& run) {
  using C = accumulate_t<T>;
  const Result expected = expected_of(x);
  const Misaligned<T> value(x.value);
  const int64_t rows = x.graph.num_rows() * x.heads;
  Guarded<T> out(rows * x.inner);
  Guarded<C> largest(rows), sum(rows), shared(num_pieces * 2 * x.heads * (x.inner + 2));
  AttentionTask<T, I> task;
  task.heads = x.heads;
  task.inner = x.inner;
  task.value = value.data();
  task.out = out.data();
  task.largest = largest.data();
  task.sum = sum.data();
  task.num_pieces = num_pieces;
  task.shared = shared.data();
  run(task);
  EXPECT_TRUE(out.is_intact() && largest.is_intact() && sum.is_intact() && shared.is_intact());
  expect_near<T>(out.numbers(), expected.out, 2, "out");
  expect_near<C>(largest.numbers(), expected.largest, 4, "largest");
  expect_near<C>(sum.numbers(), expected.sum, 4, "sum");
}

std::string trace(const char* isa, const std::string& graph, int64_t heads, int64_t inner,
                  int64_t pieces) {
  return std::string(isa) + "; graph: " + graph + "; " + std::to_string(heads) + " heads of " +
         std::to_string(inner) + "; " + std::to_string(pieces) + " pieces";
}

template <typename T, typename I>
void check_formula(const SampleGraph<I>& graph, const std::string& text,
                   const std::vector<FeatureShape>& shapes, int64_t inner, bool with_eids,
                   const std::vector<int64_t>& piece_counts) {
  const SampleCall<T, I> call(graph, text, shapes, with_eids);
  const int64_t heads = call.program.out_elements;
  const auto operands = call.pointers();
  Sample<T, I> x{graph, heads, inner, quarters<T>(graph.num_columns * heads * inner, 9),
                 [&](int64_t row, int64_t k, int64_t h) { return call.at(row, k).data[h]; }};
  const auto pieces = SMEX_SUPPORTED(attention_pieces<T, I>);
  const auto finish = SMEX_SUPPORTED(attention_finish<T, I>);
  for (size_t i = 0; i < pieces.size(); ++i) {
    for (const int64_t count : piece_counts) {
      SCOPED_TRACE(text + "; " + trace(pieces[i].isa, graph.name, heads, inner, count));
      check_forward<T, I>(x, count, [&](const AttentionTask<T, I>& common) {
        FormulaAttentionTask<T, I> task{common};
        task.rows = graph.rows(with_eids);
        task.program = &call.program;
        task.operands = operands.data();
        for (int64_t p = count; p-- > 0;) pieces[i].call(task, p, p + 1);
        if (count > 1) finish[i].call(task);
      });
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

template <typename T>
double leaky(T sum) {
  return sum > 0 ? sum : sum * 0.25;
}

template <typename T, typename I>
void check_gat(const SampleGraph<I>& graph, int64_t heads, int64_t inner,
               const std::vector<int64_t>& piece_counts) {
  using C = accumulate_t<T>;
  const auto left = quarters<C>(graph.num_columns * heads, 1);
  const auto right = quarters<C>(graph.num_rows() * heads, 2);
  const Sample<T, I> x{
      graph, heads, inner, quarters<T>(graph.num_columns * heads * inner, 9),
      [&](int64_t row, int64_t k, int64_t h) {
        return leaky(number(left[graph.indices[k] * heads + h]) + number(right[row * heads + h]));
      }};
  const auto pieces = SMEX_SUPPORTED(gat_forward_pieces<T, I>);
  const auto finish = SMEX_SUPPORTED(attention_finish<T, I>);
  for (size_t i = 0; i < pieces.size(); ++i) {
    for (const int64_t count : piece_counts) {
      SCOPED_TRACE(trace(pieces[i].isa, graph.name, heads, inner, count));
      check_forward<T, I>(x, count, [&](const AttentionTask<T, I>& common) {
        GatForwardTask<T, I> task{common};
        task.rows = graph.rows(true);
        task.slope = C(0.25);
        task.left = left.data();
        task.right = right.data();
        for (int64_t p = count; p-- > 0;) pieces[i].call(task, p, p + 1);
        if (count > 1) finish[i].call(task);
      });
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

/// The gradients, with the graph's rows as sources and its columns as destinations. What the
/// forward pass left is arbitrary, as the formulas hold for any numbers.
template <typename T, typename I>
void check_gat_backward(const SampleGraph<I>& graph, int64_t heads, int64_t inner,
                        const std::vector<int64_t>& piece_counts) {
  using C = accumulate_t<T>;
  const int64_t sources = graph.num_rows(), destinations = graph.num_columns;
  const int64_t width = heads * inner;
  const auto left = quarters<C>(sources * heads, 1), right = quarters<C>(destinations * heads, 2);
  std::vector<C> log_sum = quarters<C>(destinations * heads, 3);
  for (C& each : log_sum) each += C(4);  // weights below 1
  const Misaligned<T> value(quarters<T>(sources * width, 4)),
      out(quarters<T>(destinations * width, 5)), grad(quarters<T>(destinations * width, 6));

  std::vector<double> of_left(sources * heads), of_right(destinations * heads),
      of_value(sources * width);
  for (int64_t u = 0; u < sources; ++u) {
    for (int64_t k = graph.indptr[u]; k < graph.indptr[u + 1]; ++k) {
      const int64_t v = graph.indices[k];
      for (int64_t h = 0; h < heads; ++h) {
        double dot = 0, delta = 0;
        for (int64_t d = h * inner; d < (h + 1) * inner; ++d) {
          dot += number(grad.data()[v * width + d]) * number(value.data()[u * width + d]);
          delta += number(grad.data()[v * width + d]) * number(out.data()[v * width + d]);
        }
        const double sum = left[u * heads + h] + right[v * heads + h];
        const double weight = std::exp(leaky(sum) - log_sum[v * heads + h]);
        const double change = weight * (dot - delta) * (sum > 0 ? 1 : 0.25);
        of_left[u * heads + h] += change;
        of_right[v * heads + h] += change;
        for (int64_t d = h * inner; d < (h + 1) * inner; ++d)
          of_value[u * width + d] += weight * number(grad.data()[v * width + d]);
      }
    }
  }

  const auto states = SMEX_SUPPORTED(gat_backward_states<T, I>);
  const auto pieces = SMEX_SUPPORTED(gat_backward_pieces<T, I>);
  const auto finish = SMEX_SUPPORTED(gat_backward_finish<T, I>);
  for (size_t i = 0; i < pieces.size(); ++i) {
    for (const int64_t count : piece_counts) {
      SCOPED_TRACE(trace(pieces[i].isa, graph.name, heads, inner, count));
      constexpr int64_t kCopies = 2;
      Guarded<C> grad_left(sources * heads), grad_right(kCopies * destinations * heads),
          state(destinations * 3 * heads), shared(count * 2 * heads * (inner + 1));
      Guarded<T> grad_value(sources * width);
      std::fill_n(grad_right.data(), grad_right.size(), C(0));
      GatBackwardTask<T, I> task;
      task.rows = graph.rows(true);
      task.num_destinations = destinations;
      task.heads = heads;
      task.inner = inner;
      task.slope = C(0.25);
      task.left = left.data();
      task.right = right.data();
      task.log_sum = log_sum.data();
      task.value = value.data();
      task.out = out.data();
      task.grad = grad.data();
      task.state = state.data();
      task.grad_left = grad_left.data();
      task.grad_right = grad_right.data();
      task.grad_value = grad_value.data();
      task.num_pieces = count;
      task.shared = shared.data();
      states[i].call(task, 0, destinations / 2);
      states[i].call(task, destinations / 2, destinations);
      for (int64_t p = count; p-- > 0;) pieces[i].call(task, p, p + 1, p % kCopies);
      if (count > 1) finish[i].call(task);
      EXPECT_TRUE(grad_left.is_intact() && grad_right.is_intact() && state.is_intact() &&
                  shared.is_intact() && grad_value.is_intact());
      std::vector<double> total(destinations * heads);
      for (int64_t j = 0; j < grad_right.size(); ++j)
        total[j % (destinations * heads)] += number(grad_right.data()[j]);
      const double terms = 4.0 * inner;
      expect_near<C>(grad_left.numbers(), of_left, terms, "grad_left");
      expect_near<C>(total, of_right, terms, "grad_right");
      expect_near<T>(grad_value.numbers(), of_value, 4, "grad_value");
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

template <typename Pair>
class AttentionKernel : public ::testing::Test {};
TYPED_TEST_SUITE(AttentionKernel, AllTypes, TypeNames);

TYPED_TEST(AttentionKernel, EverySize) {
  using T = typename TypeParam::T;
  using I = typename TypeParam::I;
  const auto graph = small_graph<I>();
  for (const int64_t heads : {1, 3, 4, 8, 16, 17}) {
    for (const int64_t inner : {1, 2, 3, 4, 8, 33}) {
      if (this->HasFatalFailure()) return;
      check_gat<T>(graph, heads, inner, {1, 7});
      check_gat_backward<T>(graph, heads, inner, {1, 7});
      check_formula<T>(graph, "dot(u0, v1)", {{heads, inner}, {heads, inner}}, inner,
                       /*with_eids=*/false, {1, 7});
    }
  }
}

TYPED_TEST(AttentionKernel, EveryDivision) {
  using T = typename TypeParam::T;
  using I = typename TypeParam::I;
  for (const auto& graph : sample_graphs<I>()) {
    if (this->HasFatalFailure()) return;
    check_gat<T>(graph, 8, 2, kPieceCounts);
    check_gat_backward<T>(graph, 3, 5, kPieceCounts);
    check_formula<T>(graph, "e0 - v1", {{4}, {1}}, 4, /*with_eids=*/true, kPieceCounts);
  }
}

TYPED_TEST(AttentionKernel, FormulasOfAllOperands) {
  using T = typename TypeParam::T;
  using I = typename TypeParam::I;
  const auto graph = small_graph<I>();
  check_formula<T>(graph, "dot(leaky_relu(u0 + v1, 0.25), c2)", {{3, 5}, {3, 5}, {3, 5}}, 2, true,
                   {1, 7});
  check_formula<T>(graph, "dot(v0, v1)", {{2, 4}, {2, 4}}, 2, true, {1, 7});
  check_formula<T>(graph, "dot(u0, e1) * 0.5", {{2, 8}, {2, 8}}, 3, true, {1, 7});
  check_formula<T>(graph, "u0 + v1 * e2", {{8, 1}, {8, 1}, {1, 1}}, 1, true, {1, 7});
}

// Rows of more scores than are worked on at a time, the largest of them first or last.
TYPED_TEST(AttentionKernel, LongRows) {
  using T = typename TypeParam::T;
  using I = typename TypeParam::I;
  const SampleGraph<I> graph("long row", {1, 2500, 2});
  for (const int64_t heads : {1, 3, 8}) {
    if (this->HasFatalFailure()) return;
    check_gat<T>(graph, heads, 4, {1, 5});
    check_gat_backward<T>(graph, heads, 4, {1, 5});
  }
}

}  // namespace
}  // namespace smex::kernels
