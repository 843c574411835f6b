#include "partition/plan/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "../dense.h"
#include "ir/error.h"

namespace smex {
namespace {

using test::Dense;
using test::for_each_point;
using test::slice;
using test::translated;

/// One tile a worker, rows of an `rows` × `columns` tensor.
Layout row_layout(int workers, int64_t rows, int64_t columns) {
  Layout layout;
  for (int w = 0; w < workers; ++w) {
    layout.tiles.push_back({true, {{cut({0, rows}, workers, w, 1), {0, columns}}}, 0});
  }
  return layout;
}

Layout column_layout(int workers, int64_t rows, int64_t columns) {
  Layout layout;
  for (int w = 0; w < workers; ++w) {
    layout.tiles.push_back({true, {{{0, rows}, cut({0, columns}, workers, w, 1)}}, 0});
  }
  return layout;
}

Layout replicated(int workers, const Shape& shape) {
  Layout layout;
  layout.tiles.assign(workers, {true, Region::whole(shape), 0});
  return layout;
}

/// Every worker holds a partial sum of the whole.
Layout pending(int workers, const Shape& shape) {
  Layout layout = replicated(workers, shape);
  for (int w = 0; w < workers; ++w) layout.tiles[w].partial = w;
  layout.num_partials = workers;
  return layout;
}

int64_t moved_numel(const std::vector<Copy>& copies) {
  int64_t moved = 0;
  for (const Copy& copy : copies) moved += copy.source == copy.dest ? 0 : copy.region.numel();
  return moved;
}

/// Some of the rest of indices of the last dimension.
IndexList random_rows(std::mt19937& random, const IndexList& rest) {
  IndexList::Builder rows;
  for (const int64_t row : rest.indices()) {
    if (random() % 2) rows.add({row, row + 1});
  }
  return rows.build();
}

Region listed(const Shape& shape, IndexList rows) {
  return Region::listed(Region::whole(shape).dims, shape.size() - 1, std::move(rows));
}

/// A layout of `partials` partials; each is split along one dimension, replicated over its workers,
/// or in listed rows.
Layout random_layout(std::mt19937& random, const Shape& shape, int partials) {
  Layout layout;
  layout.num_partials = partials;
  for (int partial = 0; partial < partials; ++partial) {
    const int workers = 1 + static_cast<int>(random() % 3);
    const size_t dim = random() % (shape.size() + 1);
    if (!shape.empty() && random() % 3 == 0) {
      IndexList rest = IndexList::of({0, shape.back()});
      for (int w = 0; w < workers; ++w) {
        const IndexList rows = w + 1 < workers ? random_rows(random, rest) : rest;
        layout.tiles.push_back({!rows.empty(), listed(shape, rows), partial});
        rest = subtract(rest, rows);
      }
      continue;
    }
    for (int w = 0; w < workers; ++w) {
      Tile tile{true, Region::whole(shape), partial};
      if (dim < shape.size()) {
        Interval& range = tile.region.dims[dim];
        range = cut(range, workers, w, /*granule=*/1);
        range.lo -= range.lo > 0 && random() % 3 == 0;  // a halo
        tile.held = !range.empty();
      }
      layout.tiles.push_back(tile);
    }
  }
  for (size_t spare = random() % 2; spare > 0; --spare) layout.tiles.push_back({});
  std::shuffle(layout.tiles.begin(), layout.tiles.end(), random);
  for (Tile& tile : layout.tiles) {
    if (tile.region.rank() != shape.size()) tile.region = Region::whole(Shape(shape.size(), 0));
  }
  return layout;
}

std::vector<Tile> random_need(std::mt19937& random, const Shape& shape, size_t workers) {
  std::vector<Tile> need(workers);
  for (Tile& tile : need) {
    tile.held = random() % 4 != 0;
    for (int64_t size : shape) {
      int64_t lo = static_cast<int64_t>(random() % (size + 1));
      int64_t hi = static_cast<int64_t>(random() % (size + 1));
      tile.region.dims.push_back({std::min(lo, hi), std::max(lo, hi)});
    }
    if (shape.empty() || random() % 3 > 0) continue;
    const IndexList rows = random_rows(random, IndexList::of({0, shape.back()}));
    tile.region = intersect(tile.region, listed(shape, rows));
  }
  return need;
}

/// What each worker holds of random terms that sum to the returned dense tensor.
Dense distribute(std::mt19937& random, const Layout& layout, const Shape& shape,
                 std::vector<Dense>& held) {
  std::vector<Dense> terms;
  Dense sum(shape);
  for (int p = 0; p < layout.num_partials; ++p) {
    terms.push_back(test::random_dense(random, shape));
    for (size_t i = 0; i < sum.data.size(); ++i) sum.data[i] += terms.back().data[i];
  }
  for (const Tile& tile : layout.tiles) {
    held.push_back(tile.held ? slice(terms[tile.partial], tile.region) : Dense(Shape{0}));
  }
  return sum;
}

/// Runs the copies; the receivers add up what they get.
std::vector<Dense> simulate(const Layout& have, const std::vector<Dense>& held,
                            const std::vector<Tile>& need, const std::vector<Copy>& copies) {
  std::vector<Dense> received;
  for (const Tile& tile : need) received.emplace_back(tile.region.shape());
  for (const Copy& copy : copies) {
    const Region& source = have.tiles[copy.source].region;
    const Region& dest = need[copy.dest].region;
    for_each_point(copy.region, [&](const auto& point) {
      const Region origin{std::vector<Interval>(point.size())};
      received[copy.dest].at(translated(point, dest, origin)) +=
          held[copy.source].at(translated(point, source, origin));
    });
  }
  return received;
}

class RandomLayouts : public testing::TestWithParam<int> {
 protected:
  std::mt19937 random_{static_cast<unsigned>(GetParam())};
};

TEST_P(RandomLayouts, RelayoutDeliversTheDenseTensor) {
  for (const Shape& shape :
       {Shape{}, Shape{1}, Shape{7}, Shape{0, 3}, Shape{5, 4}, Shape{3, 1, 5}}) {
    const Layout have = random_layout(random_, shape, 1 + static_cast<int>(random_() % 3));
    std::vector<Dense> held;
    const Dense dense = distribute(random_, have, shape, held);
    const std::vector<Tile> need = random_need(random_, shape, have.tiles.size());
    const std::vector<Copy> copies = relayout(have, need);
    const std::vector<Dense> received = simulate(have, held, need, copies);
    for (size_t w = 0; w < need.size(); ++w) {
      if (!need[w].held) continue;
      EXPECT_EQ(received[w].data, slice(dense, need[w].region).data);
    }
    EXPECT_EQ(relayout_numel(have, need), moved_numel(copies));
  }
}

TEST_P(RandomLayouts, ScatterStageReducesIntoTheSameTensor) {
  for (const Shape& shape : {Shape{}, Shape{2}, Shape{7}, Shape{5, 4}, Shape{0, 4}}) {
    const Layout have = random_layout(random_, shape, 2);
    Layout need = random_layout(random_, shape, 1);
    need.tiles.resize(have.tiles.size(), {true, Region::whole(shape), 0});
    // Dropping workers may leave elements without holder; a replica keeps the layout whole.
    need.tiles[random_() % need.tiles.size()] = {true, Region::whole(shape), 0};
    std::vector<Dense> held;
    const Dense dense = distribute(random_, have, shape, held);
    const Layout stage{scatter_stage(have, need.tiles), 1};
    const auto reduced = simulate(have, held, stage.tiles, relayout(have, stage.tiles));
    const auto gathered = simulate(stage, reduced, need.tiles, relayout(stage, need.tiles));
    for (size_t w = 0; w < need.tiles.size(); ++w) {
      if (!need.tiles[w].held) continue;
      EXPECT_EQ(gathered[w].data, slice(dense, need.tiles[w].region).data);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomLayouts, testing::Range(0, 60));

TEST(Cut, PiecesCoverTheRangeInOrder) {
  for (int64_t size : {0, 1, 2, 7, 8, 12, 31}) {
    for (int parts : {1, 2, 3, 5, 8}) {
      for (int64_t granule : {0, 1, 2, 3, 4, 40}) {
        int64_t next = 5;
        for (int index = 0; index < parts; ++index) {
          const Interval piece = cut({5, 5 + size}, parts, index, granule);
          EXPECT_EQ(piece.lo, next);
          EXPECT_GE(piece.hi, piece.lo);
          if (granule > 0 && size % granule == 0) {
            EXPECT_EQ(piece.size() % granule, 0);
          }
          next = piece.hi;
        }
        EXPECT_EQ(next, 5 + size) << size << " in " << parts << " by " << granule;
      }
    }
  }
}

TEST(Cut, PiecesDifferByAtMostOneGranule) {
  for (int64_t size : {1, 7, 12, 30}) {
    for (int index = 0; index < 4; ++index) {
      const int64_t piece = cut({0, size * 3}, 4, index, /*granule=*/3).size() / 3;
      EXPECT_GE(piece, size / 4);
      EXPECT_LE(piece, size / 4 + 1);
    }
  }
}

/// Number of workers.
class Collectives : public testing::TestWithParam<int> {
 protected:
  const int k_ = GetParam();
  const int64_t rows_ = 4 * GetParam();
  const int64_t columns_ = 6 * GetParam();
  const int64_t numel_ = rows_ * columns_;
};

TEST_P(Collectives, AllGatherMovesEverythingToTheOthers) {
  const Layout whole = replicated(k_, {rows_, columns_});
  EXPECT_EQ(relayout_numel(row_layout(k_, rows_, columns_), whole.tiles), (k_ - 1) * numel_);
}

TEST_P(Collectives, ReduceScatterMovesEachPartialOnce) {
  const Layout rows = row_layout(k_, rows_, columns_);
  EXPECT_EQ(relayout_numel(pending(k_, {rows_, columns_}), rows.tiles), (k_ - 1) * numel_);
}

TEST_P(Collectives, AllToAllKeepsOneBlockInPlace) {
  const Layout columns = column_layout(k_, rows_, columns_);
  EXPECT_EQ(relayout_numel(row_layout(k_, rows_, columns_), columns.tiles), numel_ - numel_ / k_);
}

TEST_P(Collectives, HaloMovesTheBorders) {
  const Layout rows = row_layout(k_, rows_, columns_);
  std::vector<Tile> need = rows.tiles;
  for (Tile& tile : need) {
    Interval& range = tile.region.dims[0];
    range = intersect({range.lo - 1, range.hi + 1}, {0, rows_});
  }
  EXPECT_EQ(relayout_numel(rows, need), 2 * (k_ - 1) * columns_);
}

TEST_P(Collectives, AllReduceIsReduceScatterThenAllGather) {
  const Layout partial = pending(k_, {rows_, columns_});
  const std::vector<Tile> need = replicated(k_, {rows_, columns_}).tiles;
  const std::vector<Tile> stage = scatter_stage(partial, need);
  EXPECT_EQ(relayout_numel(partial, stage) + relayout_numel({stage, 1}, need),
            2 * (k_ - 1) * numel_);
}

TEST_P(Collectives, EveryWorkerReadsItsOwnReplica) {
  const Layout whole = replicated(k_, {rows_, columns_});
  EXPECT_EQ(relayout_numel(whole, column_layout(k_, rows_, columns_).tiles), 0);
}

INSTANTIATE_TEST_SUITE_P(Workers, Collectives, testing::Values(1, 2, 3, 5, 8));

TEST(Relayout, ReplicasShareTheLoad) {
  Layout have = replicated(4, {8});
  have.tiles[0].held = have.tiles[1].held = false;
  std::vector<Tile> need(4);
  need[0] = need[1] = {true, Region::whole({8}), 0};
  const std::vector<Copy> copies = relayout(have, need);
  ASSERT_EQ(copies.size(), 2U);
  EXPECT_EQ(copies[0].source, 2);
  EXPECT_EQ(copies[1].source, 2);  // the next holder in cyclic order
  need[1].held = false;
  need[2] = {true, Region::whole({8}), 0};
  EXPECT_EQ(relayout(have, need).back().source, 2);  // its own before the peers'
}

TEST(Relayout, AMissingElementIsAnInternalError) {
  Layout have = row_layout(2, 4, 2);
  have.tiles[1].held = false;
  EXPECT_THROW(relayout(have, replicated(2, {4, 2}).tiles), InternalError);
}

TEST(ScatterStage, KeepsANeedWithoutReplicasOrWithoutReduction) {
  const Layout rows = row_layout(3, 6, 2);
  const Layout whole = replicated(3, {6, 2});
  EXPECT_EQ(scatter_stage(pending(3, {6, 2}), rows.tiles)[1].region, rows.tiles[1].region);
  EXPECT_EQ(scatter_stage(rows, whole.tiles)[1].region, Region::whole({6, 2}));
  EXPECT_EQ(scatter_stage(pending(3, {2, 1}), replicated(3, {2, 1}).tiles)[1].region,
            Region::whole({2, 1}));  // fewer elements than replicas
}

}  // namespace
}  // namespace smex
