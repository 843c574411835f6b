#include "partition/lower/sums_by_peer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "../graphs.h"
#include "partition/lower/lower.h"
#include "partition/lower/residency.h"

namespace smex {
namespace {

/// One sum over the edges of a random graph, of which both tensors are cut by rows.
struct Sum {
  Sum(int64_t rows, int64_t edges, int64_t features, int workers, const std::string& reduce,
      unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<int64_t> any(0, rows - 1);
    std::vector<int64_t> degrees(rows, 0);
    for (int64_t e = 0; e < edges; ++e) {
      ++degrees[any(random)];
      columns.push_back(any(random));
    }
    for (const int64_t degree : degrees) bounds.push_back(bounds.back() + degree);
    test::Builder b;
    const auto structure = b.structure(bounds, columns);
    x = b.input({rows, features});
    out = b.gather_sums(structure, x);
    b.output(out);
    // The same by the operator's own name and arguments.
    Op op = b.graph.op(0);
    for (const Value& value : b.graph.values()) {
      if (value.id == out) continue;
      graph.add_value(value.name, value.shape, value.dtype, value.itemsize, value.role);
    }
    const Value& made = b.graph.value(out);
    out = graph.add_value(made.name, made.shape, made.dtype, made.itemsize, made.role);
    op.target = "smex::spmm";
    op.args = {std::vector<ValueRef>{{structure.bounds}, {structure.columns}},
               std::vector<ValueRef>{}, std::string("u0"), reduce, std::vector<ValueRef>{{x}}};
    op.id = -1;
    op.outputs = {out};
    graph.add_op(op);
    graph.add_output({out, OutputKind::kOutput, "0", kNoValue});
    plan.mesh = {workers};
    plan.values.assign(graph.values().size(), {kReplicate});
    plan.values[x] = plan.values[out] = {0};
    plan.ops = {{0}};
  }

  std::optional<PeerSums> parts() const {
    const DimClasses classes(graph);
    const Op& op = graph.op(0);
    std::vector<Layout> homes;
    for (const ValueId id : op.inputs) homes.push_back(home_layout(graph, classes, plan, id));
    return sums_by_peer(graph, op, op_tiles(graph, classes, plan, op, plan.ops[0]), homes);
  }

  Program lowered(bool by_peer) {
    plan.by_peer = by_peer;
    return lower(graph, plan);
  }

  std::vector<int64_t> bounds{0}, columns;
  Graph graph;
  Plan plan;
  ValueId x = kNoValue, out = kNoValue;
};

/// By row of the graph the sources of its edges, sorted.
std::vector<std::vector<int64_t>> sources_of(const Sum& sum, const PeerSums& found) {
  std::vector<std::vector<int64_t>> sources;
  for (const auto& parts : found.parts) {
    const size_t first = sources.size();
    for (const auto& part : parts) {
      if (!part) continue;
      sources.resize(std::max(sources.size(), first + part->bounds.size() - 1));
      for (size_t v = 0; v + 1 < part->bounds.size(); ++v) {
        for (int64_t e = part->bounds[v]; e < part->bounds[v + 1]; ++e) {
          sources[first + v].push_back(part->rows.at(part->sources[e]));
        }
      }
    }
  }
  EXPECT_EQ(sources.size() + 1, sum.bounds.size());
  for (auto& row : sources) std::sort(row.begin(), row.end());
  return sources;
}

TEST(SumsByPeer, PartsHaveEachEdgeOnce) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const int workers = 2 + static_cast<int>(seed % 5);
    const Sum sum(37, 400, 64, workers, "sum", seed);
    const auto found = sum.parts();
    if (workers == 2 && !found) continue;  // two workers may save nothing
    ASSERT_TRUE(found) << "seed " << seed;
    const auto sources = sources_of(sum, *found);
    for (size_t v = 0; v < sources.size(); ++v) {
      std::vector<int64_t> wanted(sum.columns.begin() + sum.bounds[v],
                                  sum.columns.begin() + sum.bounds[v + 1]);
      std::sort(wanted.begin(), wanted.end());
      EXPECT_EQ(sources[v], wanted) << "seed " << seed << ", row " << v;
    }
  }
}

TEST(SumsByPeer, WorkersBeginWithTheirOwnRowsAndAskDifferentPeers) {
  const auto found = Sum(40, 2000, 16, 4, "sum", 0).parts();
  ASSERT_TRUE(found);
  ASSERT_EQ(found->turns, 4);
  for (int w = 0; w < 4; ++w) {
    for (int turn = 0; turn < 4; ++turn) {
      const auto& part = found->parts[w][turn];
      ASSERT_TRUE(part);
      EXPECT_EQ(part->own, turn == 0);
      EXPECT_EQ(part->block.lo, 10 * ((w + turn) % 4));
    }
  }
}

TEST(SumsByPeer, ADenseGraphTakesTheMemoryOfOnePeerAndMovesAsMuch) {
  for (const char* reduce : {"sum", "mean"}) {
    Sum sum(256, 256 * 40, 256, 8, reduce, 1);
    const Program at_once = sum.lowered(false), by_peer = sum.lowered(true);
    EXPECT_EQ(at_once.sums_by_peer, 0);
    EXPECT_EQ(by_peer.sums_by_peer, 1);
    EXPECT_EQ(moved_bytes(at_once, true, true), moved_bytes(by_peer, true, true));
    const auto whole = peak_bytes(at_once, {}), parts = peak_bytes(by_peer, {});
    const int64_t tile = 256 / 8 * 256 * 4;
    for (int w = 0; w < 8; ++w) {
      EXPECT_GT(whole[w], 9 * tile);  // its own rows, those of all and the result
      EXPECT_LT(parts[w], 5 * tile);  // its own rows, a peer's, and two sums
    }
  }
}

TEST(SumsByPeer, NothingIsDividedThatMovesNothing) {
  Sum sum(40, 200, 16, 4, "sum", 0);
  sum.plan.values[sum.x] = {kReplicate};
  EXPECT_FALSE(sum.parts());
  EXPECT_EQ(sum.lowered(true).sums_by_peer, 0);
}

TEST(SumsByPeer, WorkersWithoutEdgesHaveSumsOfNothing) {
  Sum sum(40, 0, 16, 4, "mean", 0);
  const auto found = sum.parts();
  if (!found) return;  // nothing moves
  for (const auto& parts : found->parts) {
    ASSERT_TRUE(parts[0]);
    EXPECT_EQ(parts[0]->bounds, std::vector<int64_t>(11, 0));
  }
}

}  // namespace
}  // namespace smex
