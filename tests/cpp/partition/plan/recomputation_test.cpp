#include "partition/plan/recomputation.h"

#include <gtest/gtest.h>

#include "../graphs.h"

namespace smex {
namespace {

using Positions = std::vector<int>;

TEST(Recomputation, RunsARegionAgainBeforeItsFirstBackwardReader) {
  const Graph graph = test::layers_graph(5, 4, 6, 2, /*checkpoints=*/true);
  const Recomputation found = recomputation(graph);
  std::vector<std::pair<OpId, Positions>> before;
  for (const Op& op : graph.ops()) {
    if (!found.before[op.id].empty()) before.push_back({op.id, found.before[op.id]});
  }
  // The backward pass of a layer begins with the transpose of its sum, nine ops in all.
  const std::vector<std::pair<OpId, Positions>> expected = {{6, {3, 4}}, {15, {0, 1}}};
  EXPECT_EQ(graph.op(6).target, "t");
  EXPECT_EQ(graph.op(15).target, "t");
  EXPECT_EQ(before, expected);
  for (const Op& op : graph.ops()) {
    const bool inside = op.id < 6 && op.id % 3 < 2;
    EXPECT_EQ(found.runs(op.id), inside ? 2 : 1);
    EXPECT_EQ(found.remade[op.outputs[0]], inside);
  }
}

TEST(Recomputation, IsNothingWithoutRegions) {
  const Graph graph = test::layers_graph(5, 4, 6, 2, /*checkpoints=*/false);
  for (const Op& op : graph.ops()) EXPECT_EQ(recomputation(graph).runs(op.id), 1);
}

/// What the caller gets, another region reads or torch's generator draws is there anyway.
TEST(Recomputation, LeavesWhatIsKept) {
  test::Builder b;
  const ValueId x = b.input({4, 4});
  b.region = 0;
  const ValueId returned = b.add(x, x), read = b.add(x, returned), inner = b.add(x, read);
  b.output(returned);
  b.region = 1;
  const ValueId other = b.add(read, read);
  Op draw;
  draw.target = "bernoulli";
  draw.args = {ValueRef{other}};
  draw.outputs = {b.input({4, 4}, Role::kIntermediate)};
  draw.region = 1;
  draw.random = true;
  const ValueId drawn = draw.outputs[0];
  b.graph.add_op(draw);
  b.backward = true;
  const ValueId tangent = b.input({4, 4}, Role::kTangent);
  ValueId sum = tangent;
  for (ValueId value : {returned, read, inner, other, drawn}) sum = b.add(sum, value);
  b.graph.add_output({sum, OutputKind::kGradient, "x", x});
  const Recomputation found = recomputation(b.graph);
  EXPECT_FALSE(found.remade[returned]);
  EXPECT_FALSE(found.remade[read]);
  EXPECT_TRUE(found.remade[inner]);
  EXPECT_TRUE(found.remade[other]);
  EXPECT_FALSE(found.remade[drawn]);
}

/// Of an open region what a call reads that never runs again is given up all the same.
TEST(Recomputation, OfAnOpenRegionGivesUpWhatOthersRead) {
  for (const int region : {0, kNoRegion - 1}) {
    test::Builder b;
    const ValueId x = b.input({4, 4});
    b.region = region;
    const ValueId product = b.add(x, x), crossed = b.add(x, product), returned = b.add(x, crossed);
    b.output(returned);
    b.region = kNoRegion;
    b.output(b.mm(product, x));
    b.region = 1;
    b.output(b.mm(crossed, x));
    b.region = kNoRegion;
    b.backward = true;
    ValueId sum = b.input({4, 4}, Role::kTangent);
    for (ValueId value : {product, crossed, returned}) sum = b.add(sum, value);
    b.graph.add_output({sum, OutputKind::kGradient, "x", x});
    const Recomputation found = recomputation(b.graph);
    EXPECT_EQ(found.remade[product], is_open(region));
    EXPECT_FALSE(found.remade[crossed]) << "the other region may run again";
    EXPECT_FALSE(found.remade[returned]);
  }
}

}  // namespace
}  // namespace smex
