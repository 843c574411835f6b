#include "graph/gather/gather.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

namespace smex::graph {
namespace {

constexpr std::byte kUntouched{0xee};

/// Pieces of the rows 0, 1, ..., whose bytes tell the row; every other piece is elsewhere.
struct Column {
  Column(const std::vector<int64_t>& sizes, int64_t row_bytes) {
    pieces.row_bytes = row_bytes;
    pieces.starts.push_back(0);
    for (const int64_t size : sizes) pieces.starts.push_back(pieces.starts.back() + size);
    rows.resize(pieces.starts.back() * row_bytes);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = byte_of(static_cast<int64_t>(i));
    for (size_t i = 0; i < sizes.size(); ++i) {
      const std::byte* begin = rows.data() + pieces.starts[i] * row_bytes;
      pieces.data.push_back(i % 2 == 0 ? begin : nullptr);
    }
  }
  std::byte byte_of(int64_t place) const { return static_cast<std::byte>(place * 7 % 251); }
  bool is_here(int64_t id) const {
    size_t piece = 0;
    while (id >= pieces.starts[piece + 1]) ++piece;
    return piece % 2 == 0;
  }

  RowPieces pieces;
  std::vector<std::byte> rows;
};

Workers several_workers() {
  return {.count = 4, .run = [](int64_t count, const Workers::Task& task) {
            std::vector<std::thread> threads;
            for (int64_t i = 0; i < count; ++i) threads.emplace_back([&task, i] { task(i); });
            for (std::thread& thread : threads) thread.join();
          }};
}

TEST(Gather, CopiesTheRowsThatAreHereAndTellsTheOthers) {
  std::mt19937_64 draw(1);
  for (const int64_t row_bytes : {1, 3, 64, 1000}) {
    const Column column({5, 0, 17, 300, 0, 1}, row_bytes);
    for (const int64_t count : {0, 1, 2, 5000}) {
      for (const Workers& workers : {Workers{}, several_workers()}) {
        std::vector<int64_t> ids(count);
        for (int64_t& id : ids) id = static_cast<int64_t>(draw() % 323);
        std::vector<std::byte> out(count * row_bytes, kUntouched);
        std::vector<uint8_t> missing(count, 2);
        ASSERT_EQ(
            gather_rows(column.pieces, ids.data(), count, out.data(), missing.data(), workers), -1);
        for (int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(missing[i], column.is_here(ids[i]) ? 0 : 1);
          for (int64_t b = 0; b < row_bytes; ++b) {
            const std::byte expected =
                missing[i] ? kUntouched : column.byte_of(ids[i] * row_bytes + b);
            ASSERT_EQ(out[i * row_bytes + b], expected);
          }
        }
      }
    }
  }
}

TEST(Gather, NamesTheFirstIdThatNoPieceHas) {
  const Column column({5, 2, 17}, 8);
  for (const int64_t wrong : {-1, 24, 1 << 20}) {
    std::vector<int64_t> ids(9000, 3);
    ids[8000] = wrong;
    ids[8500] = -5;
    std::vector<std::byte> out(ids.size() * 8);
    std::vector<uint8_t> missing(ids.size());
    for (const Workers& workers : {Workers{}, several_workers()}) {
      EXPECT_EQ(gather_rows(column.pieces, ids.data(), 9000, out.data(), missing.data(), workers),
                8000);
    }
  }
}

TEST(Gather, RowsWithoutBytes) {
  const Column column({5, 2}, 0);
  const std::vector<int64_t> ids{0, 6, 4};
  std::vector<uint8_t> missing(3);
  EXPECT_EQ(gather_rows(column.pieces, ids.data(), 3, nullptr, missing.data(), Workers{}), -1);
}

}  // namespace
}  // namespace smex::graph
