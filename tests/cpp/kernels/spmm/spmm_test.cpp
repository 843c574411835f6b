#include "kernels/spmm/spmm.h"

#include <gtest/gtest.h>

#include "kernels/message/cpu_sample_call.h"

namespace smex::kernels {
using namespace cpu_tests;

namespace {

struct Reduction {
  Reduce kind;
  bool with_winner;
};
constexpr Reduction kReductions[] = {{Reduce::kSum, false}, {Reduce::kMean, false},
                                     {Reduce::kMax, true},  {Reduce::kMin, true},
                                     {Reduce::kMax, false}, {Reduce::kMin, false}};

bool sums(Reduce kind) { return kind == Reduce::kSum || kind == Reduce::kMean; }

struct Result {
  std::vector<double> out;
  std::vector<int64_t> winner;  // empty where it is not wanted
};

constexpr double kEmpty = -0.25;

/// By the definition. Several NaN: the winner is any of them, here the first.
template <typename T, typename I>
std::vector<Result> expected_of(const SampleCall<T, I>& call) {
  std::vector<Result> results(std::size(kReductions));
  const SampleGraph<I>& graph = call.graph;
  for (int64_t row = 0; row < graph.num_rows(); ++row) {
    std::vector<reference::Array> messages;
    const int64_t first = graph.indptr[row], last = graph.indptr[row + 1];
    for (int64_t k = first; k < last; ++k) messages.push_back(call.at(row, k));
    for (size_t r = 0; r < results.size(); ++r) {
      const auto [kind, with_winner] = kReductions[r];
      for (int64_t i = 0; i < call.program.out_elements; ++i) {
        double value = sums(kind) || messages.empty() ? 0 : messages[0].data[i];
        int64_t place = messages.empty() ? -1 : first;
        for (int64_t k = first; k < last; ++k) {
          const double x = messages[k - first].data[i];
          if (sums(kind)) {
            value += x;
          } else if (!std::isnan(value) &&
                     (std::isnan(x) || (kind == Reduce::kMax ? x > value : x < value))) {
            value = x;
            place = k;
          }
        }
        if (kind == Reduce::kMean && first < last) value /= static_cast<double>(last - first);
        if (!sums(kind) && first == last) value = kEmpty;
        results[r].out.push_back(value);
        if (with_winner) results[r].winner.push_back(place);
      }
    }
  }
  return results;
}

template <typename T, typename I>
struct Kernel {
  const char* isa;
  void (*pieces)(const SpmmTask<T, I>&, int64_t, int64_t);
  void (*finish)(const SpmmTask<T, I>&);
};

template <typename T, typename I>
std::vector<Kernel<T, I>> kernels() {
  const auto pieces = SMEX_SUPPORTED(spmm_pieces<T, I>);
  const auto finish = SMEX_SUPPORTED(spmm_finish<T, I>);
  std::vector<Kernel<T, I>> result;
  for (size_t i = 0; i < pieces.size(); ++i)
    result.push_back({pieces[i].isa, pieces[i].call, finish[i].call});
  return result;
}

/// Runs the pieces from the last to the first, one or two at a time.
template <typename T, typename I>
Result run(const Kernel<T, I>& kernel, const SampleCall<T, I>& call, const Reduction& reduction,
           int64_t num_pieces) {
  const int64_t n = call.program.out_elements, count = call.graph.num_rows() * n;
  static const T sentinel = exactly<T>(3.0), empty = exactly<T>(kEmpty);
  const std::vector<const T*> operands = call.pointers();
  std::vector<T> out(count + 1, sentinel);
  std::vector<I> winner(count, I(-7));
  std::vector<accumulate_t<T>> shared(num_pieces * 2 * n, NAN);
  std::vector<I> shared_winner(shared.size(), I(-7));
  SpmmTask<T, I> task;
  task.rows = call.graph.rows(call.with_eids);
  task.program = &call.program;
  task.operands = operands.data();
  task.reduce = reduction.kind;
  task.empty = empty;
  task.out = out.data() + 1;
  task.num_pieces = num_pieces;
  task.shared = shared.data();
  if (reduction.with_winner) {
    task.winner = winner.data();
    task.shared_winner = shared_winner.data();
  }
  for (int64_t end = num_pieces, step = 1; end > 0; step = 3 - step) {
    const int64_t begin = std::max<int64_t>(0, end - step);
    kernel.pieces(task, begin, end);
    end = begin;
  }
  if (num_pieces > 1) kernel.finish(task);
  EXPECT_EQ(number(out[0]), number(sentinel));
  Result result;
  for (int64_t i = 0; i < count; ++i) result.out.push_back(number(out[i + 1]));
  if (reduction.with_winner) result.winner.assign(winner.begin(), winner.end());
  return result;
}

template <typename T>
void expect_same(const Result& found, const Result& expected) {
  // Sums of quarters are exact before they are rounded to T; a mean is rounded twice.
  for (size_t i = 0; i < expected.out.size(); ++i)
    ASSERT_TRUE(near<T>(found.out[i], expected.out[i], /*ulps=*/1)) << "element " << i;
  ASSERT_EQ(found.winner, expected.winner);
}

template <typename T, typename I>
void check(const SampleCall<T, I>& call, const std::vector<int64_t>& piece_counts) {
  const std::vector<Result> expected = expected_of(call);
  for (const Kernel<T, I>& kernel : kernels<T, I>()) {
    for (size_t r = 0; r < std::size(kReductions); ++r) {
      for (const int64_t pieces : piece_counts) {
        SCOPED_TRACE(call.name(std::string(kernel.isa) + "; reduction " + std::to_string(r) + "; " +
                               std::to_string(pieces) + " pieces"));
        expect_same<T>(run(kernel, call, kReductions[r], pieces), expected[r]);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

template <typename Pair>
class SpmmKernel : public ::testing::Test {};
TYPED_TEST_SUITE(SpmmKernel, AllTypes, TypeNames);

TYPED_TEST(SpmmKernel, EverySize) {
  using T = typename TypeParam::T;
  using I = typename TypeParam::I;
  const SampleGraph<I> graph = small_graph<I>();
  for (const int64_t n : sizes<I>())
    for_each_message(n, [&](const char* text, const std::vector<FeatureShape>& shapes) {
      if (!this->HasFatalFailure())
        check(SampleCall<T, I>(graph, text, shapes, /*with_eids=*/n % 2 == 0), {1, 7});
    });
}

TYPED_TEST(SpmmKernel, EveryDivision) {
  using T = typename TypeParam::T;
  using I = typename TypeParam::I;
  const std::vector<std::pair<const char*, std::vector<FeatureShape>>> kMessages = {
      {"u0", {{1}}},
      {"u0", {{17}}},
      {"e0 * u1", {{1}, {5}}},
      {"u0 * e1", {{2, 4}, {2, 1}}},
      {"u0 - v1", {{3}, {3}}},
      {"u0 * c1", {{3}, {3}}},
      {"u0 * c1", {{20}, {1}}},
      {"u0 * c1 * v2", {{7}, {7}, {1}}},
      {"c0 * u1 * e2", {{16}, {16}, {1}}},
      {"dot(u0, e1)", {{2, 3}, {2, 3}}}};
  for (const SampleGraph<I>& graph : sample_graphs<I>())
    for (const auto& [text, shapes] : kMessages)
      for (const bool with_eids : sizeof(I) == 4 ? std::vector{true} : std::vector{false})
        if (!this->HasFatalFailure())
          check(SampleCall<T, I>(graph, text, shapes, with_eids), kPieceCounts);
}

TYPED_TEST(SpmmKernel, NothingIsWrittenForZeroElements) {
  using T = typename TypeParam::T;
  using I = typename TypeParam::I;
  const SampleGraph<I> graph = small_graph<I>();
  check(SampleCall<T, I>(graph, "u0", {{0}}), {1, 3});
  check(SampleCall<T, I>(graph, "u0 * e1", {{3, 0}, {3, 1}}), {1, 3});
}

TYPED_TEST(SpmmKernel, NotANumberAndInfinity) {
  using T = typename TypeParam::T;
  using I = typename TypeParam::I;
  const SampleGraph<I> graph = small_graph<I>();
  for (const int64_t n : {1, 5, 16, 33}) {
    for (const char* text : {"u0", "u0 + e1", "e0"}) {
      const size_t count = num_operands(parse_message(text));
      SampleCall<T, I> call(graph, text, std::vector<FeatureShape>(count, {n}));
      auto& values = call.operands[0].memory;
      const T nan = exactly<T>(0.0 / 0.0), infinity = exactly<T>(INFINITY);
      for (size_t i = 1; i < values.size(); i += 7) values[i] = i % 3 == 0 ? nan : infinity;
      for (size_t i = 4; i < values.size(); i += 9) values[i] = exactly<T>(-INFINITY);
      const std::vector<Result> expected = expected_of(call);
      for (const Kernel<T, I>& kernel : kernels<T, I>()) {
        for (size_t r = 0; r < std::size(kReductions); ++r) {
          for (const int64_t pieces : {1, 7, 1000}) {
            SCOPED_TRACE(call.name(kernel.isa));
            const Result found = run(kernel, call, kReductions[r], pieces);
            for (size_t i = 0; i < expected[r].out.size(); ++i) {
              ASSERT_TRUE(near<T>(found.out[i], expected[r].out[i], 1)) << "element " << i;
              if (expected[r].winner.empty()) continue;
              if (std::isnan(expected[r].out[i])) {
                const int64_t row = static_cast<int64_t>(i) / n, k = found.winner[i];
                ASSERT_TRUE(k >= graph.indptr[row] && k < graph.indptr[row + 1]);
                ASSERT_TRUE(std::isnan(call.at(row, k).data[i % n])) << "position " << k;
              } else {
                ASSERT_EQ(found.winner[i], expected[r].winner[i]) << "element " << i;
              }
            }
          }
        }
      }
    }
  }
}

// Sums of many halves are kept in a wider type until the end.
TEST(SpmmKernel, SumsOfSmallTypesAreRoundedOnce) {
  const SampleGraph<int32_t> graph("hub", {5000, 2});
  SampleCall<BFloat16, int32_t> call(graph, "e0", {{3}});
  std::fill(call.operands[0].memory.begin(), call.operands[0].memory.end(), exactly<BFloat16>(1));
  for (const auto& kernel : kernels<BFloat16, int32_t>())
    for (const int64_t pieces : {1, 7})
      EXPECT_EQ(run(kernel, call, {Reduce::kSum, false}, pieces).out[0], 4992) << kernel.isa;
}

}  // namespace
}  // namespace smex::kernels
