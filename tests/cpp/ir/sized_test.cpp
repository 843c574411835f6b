#include "ir/sized.h"

#include <gtest/gtest.h>

#include "ir/error.h"
#include "tdl/spec.h"

namespace smex {
namespace {

/// `view(x: [4, 6], [24]) -> [24]`, and a fused call of the same.
Graph example() {
  Graph graph;
  const ValueId x = graph.add_value("x", {4, 6}, "float32", 4, Role::kInput);
  const ValueId y = graph.add_value("y", {24}, "float32", 4, Role::kIntermediate);
  Op op;
  op.target = "aten::view";
  op.args = {ValueRef{x}, std::vector<int64_t>{24}, 0.5};
  op.outputs = {y};
  graph.add_op(op);
  graph.add_fusion({op, {0}});
  return graph;
}

TEST(SizedGraph, FillsSizesArgumentsAndMeanings) {
  SizedGraph sized(example());
  sized.place_size(0, 0, 0);
  sized.place_size(1, 0, 1);
  for (int call : {0, 1}) {
    sized.place_argument(call, 1, 0, 1);
    sized.place_argument(call, 2, -1, 2);
    sized.place_meaning(call, 0);
  }
  const auto spec = std::make_shared<tdl::Spec>();
  for (int64_t size : {1, 5, 1000}) {
    const Graph graph = sized.at({size, size * 6, 1.0 / size}, {{spec, {{1}}}});
    EXPECT_EQ(graph.value(0).shape, (Shape{size, 6}));
    EXPECT_EQ(graph.value(1).shape, (Shape{size * 6}));
    for (const Op* op : {&graph.op(0), &graph.fusions()[0].fused}) {
      EXPECT_EQ(std::get<std::vector<int64_t>>(op->args[1]), std::vector<int64_t>{size * 6});
      EXPECT_EQ(std::get<double>(op->args[2]), 1.0 / size);
      EXPECT_EQ(op->spec, spec);
      EXPECT_EQ(op->local.size(), 1);
    }
    EXPECT_EQ(graph.num_input_elements(), size * 6);
  }
}

TEST(SizedGraph, LeavesWhatHasNoPlace) {
  const Graph graph = SizedGraph(example()).at({}, {});
  EXPECT_EQ(graph.value(0).shape, (Shape{4, 6}));
  EXPECT_EQ(graph.str(), example().str());
}

TEST(SizedGraph, RefusesTooFewNumbersAndOtherKinds) {
  SizedGraph sized(example());
  sized.place_size(0, 0, 3);
  EXPECT_THROW(sized.at({int64_t{1}}, {}), InternalError);
  SizedGraph real(example());
  real.place_size(0, 0, 0);
  EXPECT_THROW(real.at({2.5}, {}), InternalError);
  SizedGraph meaning(example());
  meaning.place_meaning(0, 0);
  EXPECT_THROW(meaning.at({}, {}), InternalError);
}

}  // namespace
}  // namespace smex
