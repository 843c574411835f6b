#include "edges/walk.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/message/cuda/plan.h"

namespace smex::kernels {
namespace {

std::vector<int32_t> indptr_of(const std::vector<int64_t>& degrees) {
  std::vector<int32_t> indptr = {0};
  for (const int64_t degree : degrees) indptr.push_back(indptr.back() + static_cast<int>(degree));
  return indptr;
}

const std::vector<std::vector<int64_t>> kDegrees = {
    {0},   {1}, {0, 0, 0, 0, 0}, {40}, {0, 3, 0, 0, 1, 50, 2, 0, 5, 7, 0}, {1, 1, 1, 1, 1, 1, 1},
    {9, 0}};

template <typename Check>
void for_each_division(const Check& check) {
  for (const auto& degrees : kDegrees) {
    const auto indptr = indptr_of(degrees);
    EdgeRows<int32_t> rows{static_cast<int64_t>(degrees.size()), indptr.back(), indptr.data()};
    const int64_t steps = rows.num_rows + rows.num_edges;
    for (int64_t count = 1; count <= steps; ++count) check(rows, count);
  }
}

TEST(PieceWalk, PiecesTogetherVisitEachPositionOnceAndEachRowsEndOnce) {
  for_each_division([](const EdgeRows<int32_t>& rows, int64_t count) {
    int64_t next = 0;
    std::vector<int> heads(rows.num_rows), wholes(rows.num_rows), tails(rows.num_rows);
    for (int64_t p = 0; p < count; ++p) {
      PieceWalk<int32_t> walk(rows, p, count);
      while (walk.next()) {
        EXPECT_EQ(walk.first, next);
        EXPECT_GE(walk.first, rows.indptr[walk.row]);
        EXPECT_LE(walk.last, rows.indptr[walk.row + 1]);
        next = walk.last;
        if (walk.part == RowPart::kHead) ++heads[walk.row];
        if (walk.part == RowPart::kTail) ++tails[walk.row];
        if (walk.part == RowPart::kWhole) {
          ++wholes[walk.row];
          EXPECT_EQ(walk.last - walk.first, rows.indptr[walk.row + 1] - rows.indptr[walk.row]);
        }
      }
    }
    EXPECT_EQ(next, rows.num_edges);
    for (int64_t r = 0; r < rows.num_rows; ++r) {
      EXPECT_EQ(wholes[r] + tails[r], 1) << "row " << r;
      EXPECT_EQ(heads[r] > 0, tails[r] > 0) << "row " << r;
    }
  });
}

TEST(PieceWalk, SharedOnlyLeavesOutWholeRows) {
  for_each_division([](const EdgeRows<int32_t>& rows, int64_t count) {
    for (int64_t p = 0; p < count; ++p) {
      PieceWalk<int32_t> all(rows, p, count), shared(rows, p, count, /*shared_only=*/true);
      while (all.next()) {
        if (all.part == RowPart::kWhole) continue;
        ASSERT_TRUE(shared.next());
        EXPECT_EQ(shared.row, all.row);
        EXPECT_EQ(shared.first, all.first);
        EXPECT_EQ(shared.last, all.last);
        EXPECT_EQ(shared.part, all.part);
      }
      EXPECT_FALSE(shared.next());
    }
  });
}

TEST(PieceRun, IsWhatTheWalksOfAllPiecesShow) {
  for_each_division([](const EdgeRows<int32_t>& rows, int64_t count) {
    std::vector<PieceRun> expected(rows.num_rows, PieceRun{-1, -1, -1});
    for (int64_t p = 0; p < count; ++p) {
      PieceWalk<int32_t> walk(rows, p, count);
      while (walk.next()) {
        if (walk.part == RowPart::kWhole || walk.first == walk.last) continue;
        PieceRun& run = expected[walk.row];
        if (walk.part == RowPart::kTail) run = {walk.row, p, p};
        run.last = p;
      }
    }
    int64_t found = 0, wanted = 0;
    for (const PieceRun& run : expected) wanted += run.row >= 0;
    for (int64_t p = 0; p < count; ++p) {
      PieceRun run;
      if (!run_from(rows, p, count, &run)) continue;
      ++found;
      EXPECT_EQ(run.row, expected[run.row].row);
      EXPECT_EQ(run.first, expected[run.row].first);
      EXPECT_EQ(run.last, expected[run.row].last);
    }
    EXPECT_EQ(found, wanted);
  });
}

TEST(PieceOfStep, IsThePieceWhoseCursorsEncloseTheStep) {
  for (int64_t steps : {1, 7, 64, 1000}) {
    for (int64_t count : {1, 2, 7, 63}) {
      if (count > steps) continue;
      int64_t begin = 0;
      for (int64_t p = 0; p < count; ++p) {
        const int64_t end = begin + steps / count + (p < steps % count);
        for (int64_t s = begin; s < end; ++s) EXPECT_EQ(piece_of_step(s, steps, count), p);
        begin = end;
      }
      EXPECT_EQ(begin, steps);
    }
  }
  // Beyond 2^31 and 2^32.
  constexpr int64_t kMany = int64_t{1} << 40;
  EXPECT_EQ(piece_of_step(kMany - 1, kMany, 1 << 20), (1 << 20) - 1);
  EXPECT_EQ(piece_of_step(kMany / 2, kMany, 1 << 20), 1 << 19);
}

TEST(RowOf, FindsTheRowFromAnyEarlierOne) {
  for (const auto& degrees : kDegrees) {
    const auto indptr = indptr_of(degrees);
    const EdgeRows<int32_t> rows{static_cast<int64_t>(degrees.size()), indptr.back(),
                                 indptr.data()};
    for (int64_t row = 0; row < rows.num_rows; ++row)
      for (int64_t k = indptr[row]; k < indptr[row + 1]; ++k)
        for (int64_t from = 0; from <= row; ++from) EXPECT_EQ(row_of(rows, k, from), row);
  }
}

TEST(CudaPieces, AreNeverEmptyAndGrowWithTheWork) {
  for (const int64_t threads : {int64_t{0}, int64_t{1}, int64_t{16}, int64_t{1} << 40}) {
    int64_t before = 1;
    for (int64_t edges = 0; edges < int64_t{1} << 36; edges = edges * 3 + 1) {
      const int64_t rows = edges / 10, pieces = num_cuda_pieces(rows, edges, threads);
      EXPECT_GE(pieces, 1);
      EXPECT_LE(pieces, std::max<int64_t>(1, (rows + edges) / 16 + 1));
      EXPECT_GE(pieces, (rows + edges) / 256);
      EXPECT_GE(pieces, before / 2);
      before = pieces;
    }
  }
  EXPECT_EQ(num_cuda_pieces(100'000, 2'000'000, /*threads=*/16), 16'407);
}

}  // namespace
}  // namespace smex::kernels
