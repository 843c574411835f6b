#include "edges/cursor.h"

#include <gtest/gtest.h>

#include "kernels/message/cpu_samples.h"

namespace smex::kernels {
using namespace cpu_tests;

namespace {

template <typename I>
void check_cursors(const SampleGraph<I>& graph, int64_t count) {
  SCOPED_TRACE(graph.name + ", " + std::to_string(count) + " pieces");
  const EdgeRows<I> rows = graph.rows(false);
  const EdgeCursor begin = cursor_at(rows, 0, count), end = cursor_at(rows, count, count);
  EXPECT_EQ(begin.row, 0);
  EXPECT_EQ(begin.edge, 0);
  EXPECT_EQ(end.row, graph.num_rows());
  EXPECT_EQ(end.edge, graph.num_edges());
  const int64_t steps = graph.num_rows() + graph.num_edges();
  for (int64_t i = 0; i < count; ++i) {
    const EdgeCursor from = cursor_at(rows, i, count), to = cursor_at(rows, i + 1, count);
    const int64_t size = to.row - from.row + to.edge - from.edge;
    ASSERT_TRUE(from.row <= to.row && from.edge <= to.edge);
    ASSERT_TRUE(size == steps / count || size == steps / count + 1) << "piece " << i;
    if (from.row < graph.num_rows()) {
      ASSERT_TRUE(from.edge >= graph.indptr[from.row] && from.edge <= graph.indptr[from.row + 1]);
    }
  }
}

TEST(EdgeCursor, PiecesAreEvenAndCoverRowsAndEdges) {
  for (const auto& graph : sample_graphs<int32_t>())
    for (const int64_t count : kPieceCounts) check_cursors(graph, count);
  for (const auto& graph : sample_graphs<int64_t>()) check_cursors(graph, 5);
}

TEST(NumPieces, GrowWithTheWorkUpToALimit) {
  EXPECT_EQ(num_pieces(0, 0, 0), 1);
  EXPECT_EQ(num_pieces(10, 100, 64), 1);
  EXPECT_GT(num_pieces(100'000, 2'000'000, 64), 100);
  EXPECT_GT(num_pieces(20'000, 180'000, 1), 10) << "narrow features are work for several threads";
  EXPECT_EQ(num_pieces(int64_t{1} << 33, int64_t{1} << 40, 1024), 1024);
  EXPECT_EQ(num_pieces(10, 100, int64_t{1} << 40), 111);
}

}  // namespace
}  // namespace smex::kernels
