// The CUDA kernels of smex::sddmm, run thread by thread.
#include "../message/cuda_emulator.h"
//
#include "kernels/sddmm/cuda/sddmm.cuh"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "../message/cuda_samples.h"

namespace smex::kernels {
namespace {

using namespace cuda_samples;

struct Case {
  std::string message;
  std::vector<FeatureShape> shapes;
  std::optional<FeatureShape> reduce_to = std::nullopt;
};

const std::vector<Case> kCases = {
    // Dot products: vectors of every width, heads, short and long.
    {"dot(u0, v1)", {{64}, {64}}},
    {"dot(u0, v1)", {{7}, {7}}},
    {"dot(v0, e1)", {{8, 8}, {8, 8}}},
    {"dot(u0, e1)", {{3, 6}, {3, 6}}},
    {"u0 * v1", {{4, 16}, {4, 16}}, FeatureShape{4, 1}},
    {"u0 * v1", {{4, 16}, {4, 16}}, FeatureShape{}},
    {"u0 * v1", {{300}, {300}}, FeatureShape{1}},
    // Element by element.
    {"u0", {{5}}},
    {"e0", {{}}},
    {"u0 + v1", {{}, {}}},
    {"u0 - v1", {{40}, {40}}},
    {"u0 / v1 + e2", {{3, 4}, {4}, {3, 1}}},
    {"u0 * v1", {{2, 1, 3}, {5, 1}}},
    {"e0 * (e1 - v2)", {{8}, {8}, {8}}},
    // Summed to smaller shapes.
    {"u0 * e1", {{6, 4}, {6, 4}}, FeatureShape{4}},
    {"u0 + v1", {{2, 3, 4}, {2, 3, 4}}, FeatureShape{2, 1, 4}},
    {"u0 + v1", {{2, 3, 4}, {2, 3, 4}}, FeatureShape{1, 3, 1}},
    {"u0 * e1 * v2", {{9}, {}, {9}}, FeatureShape{}},
    // Sums within.
    {"dot(u0, v1) * u0", {{2, 40}, {2, 40}}},
    {"dot(u0, v1) * e2", {{2, 6}, {2, 6}, {2, 1}}},
    {"dot(u0, v1) * e2", {{2, 6}, {2, 6}, {2, 6}}, FeatureShape{2, 1}},
    {"dot(u0, v1)", {{3, 6}, {3, 6}}, FeatureShape{1, 1}},
};

template <typename T, typename I>
void check(const Case& test, const SampleGraph<I>& graph) {
  const Message message = parse_message(test.message);
  const SampleOperands<T> operands(message, graph, test.shapes);
  const MessageProgram program = compile(message, test.shapes, test.reduce_to);
  const EdgeRows<I> rows = graph.rows();
  std::vector<T> out(rows.num_edges * program.out_elements);
  const auto pointers = operands.pointers();
  SddmmTask<T, I> task;
  task.rows = rows;
  task.program = &program;
  task.operands = pointers.data();
  task.out = out.data();
  const auto device = to_device(program, test.shapes);
  ASSERT_TRUE(device.has_value());
  sddmm_cuda(task, *device, nullptr);

  const PlainMessage<T> plain(message, operands);
  const FeatureShape full = shape_of(message, test.shapes);
  for (int64_t row = 0; row < rows.num_rows; ++row) {
    for (int64_t k = rows.indptr[row]; k < rows.indptr[row + 1]; ++k) {
      const int64_t eid = graph.eid(k);
      const auto expected = summed_to(plain.of(rows.indices[k], row, eid), plain.whole(), full,
                                      test.reduce_to.value_or(full));
      ASSERT_EQ(static_cast<int64_t>(expected.size()), program.out_elements);
      for (size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(widen(out[eid * program.out_elements + static_cast<int64_t>(i)]), expected[i],
                    kTolerance<T> * (1 + 4 * std::fabs(expected[i])))
            << test.message << " edge " << eid << " element " << i;
    }
  }
}

template <typename T, typename I>
void check_all(bool has_eids) {
  for (const auto& degrees : {hub_degrees(), {0, 0, 1, 0}, {0, 0, 0}, {2, 0, 0, 0, 0, 0, 9}}) {
    const SampleGraph<I> graph(degrees, has_eids);
    for (const Case& test : kCases) check<T, I>(test, graph);
  }
}

TEST(SddmmCuda, Float) { check_all<float, int32_t>(/*has_eids=*/true); }
TEST(SddmmCuda, DoubleInEdgeOrder) { check_all<double, int64_t>(/*has_eids=*/false); }
TEST(SddmmCuda, BFloat16) { check_all<BFloat16, int64_t>(/*has_eids=*/true); }
TEST(SddmmCuda, HalfInEdgeOrder) { check_all<Half, int32_t>(/*has_eids=*/false); }

}  // namespace
}  // namespace smex::kernels
