#include "kernels/sddmm/sddmm.h"

#include <gtest/gtest.h>

#include "kernels/message/cpu_sample_call.h"

namespace smex::kernels {
using namespace cpu_tests;

namespace {

template <typename T, typename I>
std::vector<double> expected_of(const SampleCall<T, I>& call) {
  const SampleGraph<I>& graph = call.graph;
  const int64_t n = call.program.out_elements;
  std::vector<double> out(graph.num_edges() * n);
  for (int64_t row = 0; row < graph.num_rows(); ++row)
    for (int64_t k = graph.indptr[row]; k < graph.indptr[row + 1]; ++k) {
      const reference::Array sums = reference::summed_to(call.at(row, k), call.program.out_shape);
      std::copy(sums.data.begin(), sums.data.end(), out.begin() + graph.eid(k, call.with_eids) * n);
    }
  return out;
}

/// Runs the pieces from the last to the first, one or two at a time.
template <typename T, typename I>
std::vector<double> run(const Version<void (*)(const SddmmTask<T, I>&, int64_t, int64_t)>& kernel,
                        const SampleCall<T, I>& call, int64_t num_pieces) {
  const int64_t count = call.graph.num_edges() * call.program.out_elements;
  static const T sentinel = exactly<T>(3.0);
  const std::vector<const T*> operands = call.pointers();
  std::vector<T> out(count + 1, sentinel);
  SddmmTask<T, I> task;
  task.rows = call.graph.rows(call.with_eids);
  task.program = &call.program;
  task.operands = operands.data();
  task.out = out.data() + 1;
  task.num_pieces = num_pieces;
  for (int64_t end = num_pieces, step = 1; end > 0; step = 3 - step) {
    const int64_t begin = std::max<int64_t>(0, end - step);
    kernel.call(task, begin, end);
    end = begin;
  }
  EXPECT_EQ(number(out[0]), number(sentinel));
  std::vector<double> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(number(out[i + 1]));
  return result;
}

/// `ulps`: 1 where all sums are exact before they are rounded to T.
template <typename T, typename I>
void check(const SampleCall<T, I>& call, const std::vector<int64_t>& piece_counts,
           double ulps = 1) {
  const std::vector<double> expected = expected_of(call);
  for (const auto& kernel : SMEX_SUPPORTED(sddmm_pieces<T, I>)) {
    for (const int64_t pieces : piece_counts) {
      SCOPED_TRACE(call.name(std::string(kernel.isa) + "; " + std::to_string(pieces) + " pieces"));
      const std::vector<double> found = run<T, I>(kernel, call, pieces);
      for (size_t i = 0; i < expected.size(); ++i)
        ASSERT_TRUE(near<T>(found[i], expected[i], ulps)) << "element " << i;
    }
  }
}

int operand_count(const char* text) { return num_operands(parse_message(text)); }

template <typename Pair>
class SddmmKernel : public ::testing::Test {};
TYPED_TEST_SUITE(SddmmKernel, AllTypes, TypeNames);

TYPED_TEST(SddmmKernel, EverySize) {
  using T = typename TypeParam::T;
  using I = typename TypeParam::I;
  const SampleGraph<I> graph = small_graph<I>();
  for (const int64_t n : sizes<I>())
    for_each_message(n, [&](const char* text, const std::vector<FeatureShape>& shapes) {
      if (!this->HasFatalFailure())
        check(SampleCall<T, I>(graph, text, shapes, /*with_eids=*/n % 2 == 0), {1, 7});
    });
}

TYPED_TEST(SddmmKernel, DotProductsOfManyHeads) {
  using T = typename TypeParam::T;
  using I = typename TypeParam::I;
  const SampleGraph<I> graph = small_graph<I>();
  if (sizeof(I) == 8) return;  // how wide ids are does not change how features are done
  for (const int64_t heads : {1, 3, 8, 17})
    for (const int64_t inner : {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 33})
      for (const char* text : {"dot(u0, v1)", "dot(e0, u1)"})
        if (!this->HasFatalFailure())
          check(SampleCall<T, I>(graph, text, {{heads, inner}, {heads, inner}}), {1});
}

TYPED_TEST(SddmmKernel, EveryDivision) {
  using T = typename TypeParam::T;
  using I = typename TypeParam::I;
  for (const SampleGraph<I>& graph : sample_graphs<I>())
    for (const bool with_eids : {false, true}) {
      check(SampleCall<T, I>(graph, "dot(u0, v1)", {{2, 8}, {2, 8}}, with_eids), kPieceCounts);
      check(SampleCall<T, I>(graph, "u0 - v1", {{5}, {5}}, with_eids), kPieceCounts);
      check(SampleCall<T, I>(graph, "v0 * e1", {{3}, {1}}, with_eids, FeatureShape{1}),
            kPieceCounts);
    }
}

TYPED_TEST(SddmmKernel, SumsDownToAShape) {
  using T = typename TypeParam::T;
  using I = typename TypeParam::I;
  struct Case {
    const char* text;
    std::vector<FeatureShape> shapes;
    FeatureShape reduce_to;
  };
  const std::vector<Case> kCases = {{"u0 * v1", {{4, 8}, {4, 8}}, {4, 1}},
                                    {"u0 * v1", {{4, 8}, {4, 8}}, {1, 8}},
                                    {"u0 * v1", {{4, 8}, {4, 8}}, {8}},
                                    {"u0 * v1", {{4, 8}, {4, 8}}, {1}},
                                    {"u0 * v1", {{4, 8}, {4, 8}}, {}},
                                    {"u0 * v1", {{4, 8}, {4, 8}}, {4, 8}},
                                    {"u0 * v1", {{2, 3, 5}, {3, 1}}, {2, 1, 5}},
                                    {"u0 * v1", {{2, 3, 5}, {3, 1}}, {1, 3, 1}},
                                    {"u0 + v1", {{2, 3}, {3}}, {2, 1}},
                                    {"u0 + v1", {{2, 1}, {1, 3}}, {1, 3}},
                                    {"dot(u0, v1)", {{4, 8}, {4, 8}}, {1, 1}},
                                    {"dot(u0, v1)", {{2, 3, 8}, {2, 3, 8}}, {2, 1, 1}},
                                    {"dot(u0, v1)", {{2, 3, 8}, {2, 3, 8}}, {1, 3, 1}},
                                    {"dot(u0, v1) * e2", {{3, 8}, {3, 8}, {3, 8}}, {3, 1}},
                                    {"dot(u0, v1) + e2", {{8}, {8}, {3, 1}}, {1}},
                                    {"dot(u0, v1) + e2", {{8}, {8}, {3, 1}}, {3, 1}},
                                    {"u0 * v1", {{0}, {0}}, {0}}};
  const SampleGraph<I> graph = small_graph<I>();
  for (const Case& sample : kCases)
    check(SampleCall<T, I>(graph, sample.text, sample.shapes, true, sample.reduce_to), {1, 3});
}

TYPED_TEST(SddmmKernel, NoElements) {
  using T = typename TypeParam::T;
  using I = typename TypeParam::I;
  const SampleGraph<I> graph = small_graph<I>();
  check(SampleCall<T, I>(graph, "u0", {{0}}), {1, 3});
}

// Every operation of the interpreter, also on numbers where it is not defined.
TYPED_TEST(SddmmKernel, EveryOperation) {
  using T = typename TypeParam::T;
  using I = typename TypeParam::I;
  const SampleGraph<I> graph = small_graph<I>();
  for (const char* text : {"u0 + v1",
                           "u0 - v1",
                           "u0 * v1",
                           "u0 / v1",
                           "maximum(u0, v1)",
                           "minimum(u0, v1)",
                           "greater(u0, v1)",
                           "less(u0, v1)",
                           "less_equal(u0, v1)",
                           "equal(u0, u0 * v1)",
                           "select(less(u0, v1), v1)",
                           "pow(u0, 2) + v1",
                           "pow(u0, 3) + v1",
                           "pow(u0, 0.5) * v1",
                           "leaky_relu(u0, 0.25) + v1",
                           "leaky_relu(u0, -1) + v1",
                           "-u0 + v1",
                           "abs(u0) * v1",
                           "sign(u0) + v1",
                           "step(u0) + v1",
                           "relu(u0) + v1",
                           "sqrt(u0) * v1",
                           "exp(u0) + v1 * 0",
                           "expm1(u0) + v1 * 0",
                           "log(u0) + v1 * 0",
                           "log1p(u0) + v1 * 0",
                           "erf(u0) + v1 * 0",
                           "sin(u0) + v1 * 0",
                           "cos(u0) + v1 * 0",
                           "sigmoid(u0) + v1 * 0",
                           "softplus(u0) + v1 * 0",
                           "tanh(u0) + v1 * 0",
                           "u0 * 2.5 + v1 / 4 - 1",
                           "sum_last(u0) * v1",
                           "sum_last(u0 + sum_last(v1))",
                           "exp(-u0) * exp(-u0) * v1",
                           "u0 * v1 - c2"}) {
    for (const int64_t n : {1, 3, 17}) {
      SampleCall<T, I> call(graph, text, std::vector<FeatureShape>(operand_count(text), {2, n}));
      auto& values = call.operands[0].memory;
      for (size_t i = 1; i < values.size(); i += 11)
        values[i] = exactly<T>(i % 3 == 0 ? 0.0 / 0.0 : i % 3 == 1 ? INFINITY : -INFINITY);
      // A few roundings of float in functions, and one of T.
      check(call, {1, 3}, /*ulps=*/kEpsilon<T> > 1e-6 ? 1.1 : 8);
      if (this->HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace smex::kernels
