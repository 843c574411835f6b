#include "partition/lower/exchange.h"

#include <gtest/gtest.h>

#include <array>

#include "ir/error.h"
#include "partition/lower/gather.h"

namespace smex {
namespace {

Region box(std::vector<Interval> dims) { return Region{std::move(dims)}; }

class PiecesOf : public testing::TestWithParam<Region> {};

TEST_P(PiecesOf, CoverTheRegionWithoutOverlap) {
  const Region& whole = GetParam();
  for (int64_t most : {1, 3, 4, 7, 14, 20, 35, 100}) {
    int64_t elements = 0;
    std::vector<Region> seen;
    for (const Region& piece : pieces_of(whole, 4, 4 * most)) {
      EXPECT_LE(piece.numel(), most);
      EXPECT_TRUE(whole.contains(piece));
      for (const Region& other : seen) EXPECT_TRUE(intersect(piece, other).empty());
      seen.push_back(piece);
      elements += piece.numel();
    }
    EXPECT_EQ(elements, whole.numel());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Regions, PiecesOf,
    testing::Values(box({{2, 7}, {0, 1}, {3, 10}}),
                    Region::listed({{0, 20}, {2, 9}}, 0, IndexList({1, 2, 3, 4, 5, 9, 17})),
                    Region::listed({{4, 6}, {0, 30}, {3, 5}}, 1, IndexList({3, 8, 21}))));

TEST(PiecesOfScalars, OneElementIsNotCut) {
  EXPECT_EQ(pieces_of(box({}), 8, 4).size(), 1U);
  EXPECT_EQ(pieces_of(box({{0, 2}}), 8, 1).size(), 2U);
}

/// A tensor of 6 rows of 2, in halves with two workers, that four workers want: 0 and 1 rows 0 to
/// 4, 2 the last row, 3 nothing.
Program example() {
  const Layout from{{{true, box({{0, 3}, {0, 2}})}, {true, box({{3, 6}, {0, 2}})}, {}, {}}, 1};
  return relayout_program({{"x",
                            "float32",
                            4,
                            from,
                            {{true, box({{0, 4}, {0, 2}})},
                             {true, box({{0, 4}, {0, 2}})},
                             {true, box({{5, 6}, {0, 2}})},
                             {}}}});
}

TEST(ListExchanges, WorkersOfOneProcessSendNothing) {
  const Exchanges found = list_exchanges(example(), {0, 0, 0, 0}, 1024);
  EXPECT_TRUE(found.forward.empty());
  EXPECT_TRUE(found.backward.empty());
}

TEST(ListExchanges, EachPairHasOnePacket) {
  const Exchanges found = list_exchanges(example(), {0, 1, 2, 3}, 1024);
  ASSERT_EQ(found.forward.size(), 1U);
  const auto& packets = found.forward[0].packets;
  ASSERT_EQ(packets.size(), 3U);
  EXPECT_EQ(exchanged_bytes(found.forward), moved_bytes(example(), true, true));
  const std::vector<std::array<int64_t, 3>> expected = {{0, 1, 24}, {1, 0, 8}, {1, 2, 8}};
  for (size_t n = 0; n < packets.size(); ++n) {
    EXPECT_EQ(packets[n].from, expected[n][0]);
    EXPECT_EQ(packets[n].to, expected[n][1]);
    EXPECT_EQ(packets[n].bytes, expected[n][2]);
  }
  EXPECT_EQ(packets[2].parcels[0].box, box({{2, 3}, {0, 2}}));  // inside of the sender's slot
}

TEST(ListExchanges, AProcessGetsABoxOnce) {
  // Workers 0 and 1 would both fetch row 3 of worker 2, were it with another process.
  const Layout from{{{}, {}, {true, box({{0, 6}})}}, 1};
  const Program program = relayout_program(
      {{"x", "float64", 8, from, {{true, box({{1, 3}})}, {true, box({{1, 3}})}, {}}}});
  const Exchanges together = list_exchanges(program, {0, 0, 1}, 1024);
  EXPECT_EQ(exchanged_bytes(together.forward), 16);
  const Exchanges apart = list_exchanges(program, {0, 1, 2}, 1024);
  EXPECT_EQ(exchanged_bytes(apart.forward), 32);
}

TEST(ListExchanges, LargeOnesGoInRounds) {
  const Exchanges found = list_exchanges(example(), {0, 1, 2, 3}, 8);
  ASSERT_EQ(found.forward.size(), 3U);  // rows of 8 bytes; worker 0 sends three
  EXPECT_EQ(found.forward[0].packets.size(), 3U);
  EXPECT_EQ(found.forward[2].packets.size(), 1U);
  EXPECT_EQ(exchanged_bytes(found.forward), 40);
}

TEST(ListExchanges, RefusesFetchesOfNoRelayout) {
  Program program = example();
  for (Instr& instr : program.workers[2].forward) std::get<FetchInstr>(instr).relayout = -1;
  EXPECT_THROW(list_exchanges(program, {0, 1, 2, 3}, 1024), InternalError);
  EXPECT_THROW(list_exchanges(program, {0, 1}, 1024), InternalError);
}

TEST(Digest, TellsProgramsApart) {
  const Program program = example();
  EXPECT_EQ(digest(program), digest(example()));
  Program other = example();
  std::get<FetchInstr>(other.workers[2].forward[0]).parts[0].source.dims[0].lo += 1;
  EXPECT_NE(digest(program), digest(other));
}

TEST(RelayoutProgram, LeavesWhatIsThere) {
  const Layout from{{{true, box({{0, 4}})}, {true, box({{0, 4}})}}, 1};
  const Program program =
      relayout_program({{"x", "float32", 4, from, {{true, box({{0, 4}})}, {}}}});
  EXPECT_EQ(program.outputs[0].slots[0], program.inputs[0].slots[0]);
  EXPECT_EQ(program.outputs[0].slots[1], kNoSlot);
  EXPECT_TRUE(program.workers[0].forward.empty());
}

Graph graph_of_result() {
  Graph graph;
  const ValueId x = graph.add_value("x", {6, 2}, "float32", 4, Role::kInput);
  graph.add_output({x, OutputKind::kOutput, "0"});
  return graph;
}

TEST(GatherOutputs, GivesEachProcessTheWhole) {
  const Graph graph = graph_of_result();
  Program program = example();
  program.outputs[0].value = 0;
  // Of the tiles that lie with workers 0 and 1, before anything is fetched.
  program.outputs[0].slots = program.inputs[0].slots;
  program.outputs[0].regions = program.inputs[0].regions;
  gather_outputs(returned_of(graph), {0, 0, 1, 1}, program);
  const Binding& result = program.outputs[0];
  for (const int first : {0, 2}) {
    ASSERT_NE(result.slots[first], kNoSlot);
    EXPECT_EQ(result.regions[first], Region::whole({6, 2}));
    const auto& fetch = std::get<FetchInstr>(program.workers[first].forward.back());
    EXPECT_EQ(fetch.kind, "gather");
    EXPECT_EQ(fetch.parts.size(), 2U);
  }
  const int relayout = std::get<FetchInstr>(program.workers[0].forward.back()).relayout;
  EXPECT_GT(relayout, std::get<FetchInstr>(program.workers[0].forward.front()).relayout);
}

TEST(GatherOutputs, AddsNothingWhereEachProcessHasTheWhole) {
  Graph graph;
  const ValueId x = graph.add_value("x", {4}, "float32", 4, Role::kInput);
  graph.add_output({x, OutputKind::kOutput, "0"});
  const Layout everywhere{{{true, box({{0, 4}})}, {true, box({{0, 4}})}}, 1};
  Program program = relayout_program({{"x", "float32", 4, everywhere, everywhere.tiles}});
  program.outputs[0].value = 0;
  gather_outputs(returned_of(graph), {0, 1}, program);
  EXPECT_TRUE(program.workers[0].forward.empty());
  EXPECT_TRUE(program.workers[1].forward.empty());
}

}  // namespace
}  // namespace smex
