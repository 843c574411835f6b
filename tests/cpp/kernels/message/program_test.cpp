#include "kernels/message/program.h"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

#include "kernels/message/reference.h"

namespace smex::kernels {
namespace {

using Kind = Broadcast::Kind;

int64_t element(const Broadcast& broadcast, int64_t i) {
  switch (broadcast.kind) {
    case Kind::kFull:
      return i;
    case Kind::kScalar:
      return 0;
    case Kind::kHead:
      return i / broadcast.inner;
    case Kind::kTile:
      return i % broadcast.inner;
    case Kind::kTable:
      return broadcast.table.at(i);
  }
  return -1;
}

void expect_by_index(const FeatureShape& part, const FeatureShape& whole) {
  const Broadcast found = broadcast_of(part, whole);
  EXPECT_EQ(found.row_size, reference::size_of(part));
  const int64_t total = reference::size_of(whole);
  if (found.kind == Kind::kTable) {
    ASSERT_EQ(static_cast<int64_t>(found.table.size()), total);
  }
  for (int64_t i = 0; i < total; ++i)
    ASSERT_EQ(element(found, i), reference::source_index(i, whole, part)) << "element " << i;
}

TEST(BroadcastOf, Kinds) {
  struct Case {
    FeatureShape part, whole;
    Kind kind;
    int64_t inner;
  };
  const Case kCases[] = {
      {{5}, {5}, Kind::kFull, 1},
      {{}, {}, Kind::kFull, 1},
      {{}, {1, 1}, Kind::kFull, 1},
      {{}, {4}, Kind::kScalar, 4},
      {{1}, {2, 4}, Kind::kScalar, 8},
      {{1, 1}, {2, 4}, Kind::kScalar, 8},
      {{2, 1}, {2, 4}, Kind::kHead, 4},
      {{2, 1, 1}, {2, 4, 3}, Kind::kHead, 12},
      {{2, 4, 1}, {2, 4, 3}, Kind::kHead, 3},
      {{4}, {2, 4}, Kind::kTile, 4},
      {{1, 4}, {2, 4}, Kind::kTile, 4},
      {{4, 3}, {2, 4, 3}, Kind::kTile, 12},
      {{1, 4, 1}, {2, 4, 1}, Kind::kTile, 4},
      {{1, 4, 1}, {2, 4, 3}, Kind::kTable, 0},
      {{2, 1, 3}, {2, 4, 3}, Kind::kTable, 0},
  };
  for (const Case& sample : kCases) {
    const Broadcast found = broadcast_of(sample.part, sample.whole);
    SCOPED_TRACE(&sample - kCases);
    EXPECT_EQ(found.kind, sample.kind);
    if (found.kind == Kind::kScalar || found.kind == Kind::kHead || found.kind == Kind::kTile) {
      EXPECT_EQ(found.inner, sample.inner);
    }
    expect_by_index(sample.part, sample.whole);
  }
}

TEST(BroadcastOf, EveryShapeOfFourDimensions) {
  for (int sizes = 0; sizes < 16; ++sizes) {  // 1 or 2 and more
    for (int kept = 0; kept < 16; ++kept) {   // repeated or not
      for (int absent = 0; absent < 5; ++absent) {
        FeatureShape whole, part;
        for (int d = 0; d < 4; ++d) {
          whole.push_back(sizes >> d & 1 ? d + 2 : 1);
          if (d >= absent) part.push_back(kept >> d & 1 ? whole.back() : 1);
        }
        expect_by_index(part, whole);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(BroadcastOf, NoElements) {
  EXPECT_EQ(broadcast_of({0}, {0}).row_size, 0);
  EXPECT_EQ(broadcast_of({3, 0}, {3, 0}).row_size, 0);
  EXPECT_EQ(broadcast_of({3, 1}, {3, 0}).row_size, 3);
  EXPECT_EQ(broadcast_of({1}, {3, 0}).row_size, 1);
}

TEST(BroadcastShapes, FollowsNumpy) {
  EXPECT_EQ(broadcast_shapes({}), FeatureShape());
  EXPECT_EQ(broadcast_shapes({{}, {3}}), FeatureShape({3}));
  EXPECT_EQ(broadcast_shapes({{2, 1}, {3}}), FeatureShape({2, 3}));
  EXPECT_EQ(broadcast_shapes({{4}, {2, 1, 1}, {3, 1}}), FeatureShape({2, 3, 4}));
  EXPECT_EQ(broadcast_shapes({{0}, {1}}), FeatureShape({0}));
  EXPECT_EQ(broadcast_shapes({{2, 0}, {2, 1}, {}}), FeatureShape({2, 0}));
}

template <typename Function>
std::string error_of(const Function& f) {
  try {
    f();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

TEST(BroadcastShapes, ErrorsNameBothShapes) {
  EXPECT_EQ(error_of([] { broadcast_shapes({{2, 3}, {2}}); }),
            "feature shapes [2, 3] and [2] do not broadcast");
  EXPECT_EQ(error_of([] { broadcast_shapes({{0}, {2}}); }),
            "feature shapes [0] and [2] do not broadcast");
  EXPECT_EQ(error_of([] { compile(parse_message("u0 * v1"), {{4}, {3, 2}}); }),
            "feature shapes [4] and [3, 2] do not broadcast");
}

TEST(ShapeOf, EveryKindOfMessage) {
  const std::vector<FeatureShape> kShapes = {{2, 4}, {4}, {2, 1}, {}};
  const auto shape = [&](const char* text) { return shape_of(parse_message(text), kShapes); };
  EXPECT_EQ(shape("u0"), FeatureShape({2, 4}));
  EXPECT_EQ(shape("u3"), FeatureShape());
  EXPECT_EQ(shape("exp(u1)"), FeatureShape({4}));
  EXPECT_EQ(shape("u1 * u2"), FeatureShape({2, 4}));
  EXPECT_EQ(shape("u3 + 1"), FeatureShape());
  EXPECT_EQ(shape("dot(u0, u1)"), FeatureShape({2, 1}));
  EXPECT_EQ(shape("dot(u0, u1) * u1"), FeatureShape({2, 4}));
  EXPECT_EQ(shape("sum_last(u3)"), FeatureShape());
  EXPECT_EQ(shape("leaky_relu(u1, 0.2)"), FeatureShape({4}));
}

TEST(Compile, CopyHasNoCode) {
  const MessageProgram program = compile(parse_message("e0"), {{2, 3}});
  EXPECT_TRUE(program.code.empty());
  ASSERT_EQ(program.operands.size(), 1u);
  EXPECT_EQ(program.operands[0].target, Target::kEdge);
  EXPECT_EQ(program.operands[0].broadcast.kind, Kind::kFull);
  EXPECT_EQ(program.elements, 6);
  EXPECT_EQ(program.out_elements, 6);
  EXPECT_EQ(program.out_shape, FeatureShape({2, 3}));
  EXPECT_EQ(program.pick, 1);
  EXPECT_FALSE(program.reduces);
}

TEST(Compile, EachDistinctExpressionOnce) {
  const MessageProgram program =
      compile(parse_message("exp(u0 - v1) * exp(u0 - v1) + exp(v1 - u0)"), {{3}, {3}});
  EXPECT_EQ(program.operands.size(), 2u);
  EXPECT_EQ(program.code.size(), 6u);  // two differences, two exp, a product, a sum
  EXPECT_EQ(program.num_slots, 8);
}

TEST(Compile, DotPicksOneOfItsGroup) {
  const MessageProgram program = compile(parse_message("dot(u0, v1)"), {{2, 8}, {2, 8}});
  EXPECT_EQ(program.elements, 16);
  EXPECT_EQ(program.last, 8);
  EXPECT_EQ(program.pick, 8);
  EXPECT_EQ(program.out_shape, FeatureShape({2, 1}));
  EXPECT_EQ(program.out_elements, 2);
  EXPECT_FALSE(program.reduces);
}

TEST(Compile, ASumOverOneElementIsThatElement) {
  EXPECT_EQ(compile(parse_message("dot(u0, v1)"), {{2, 1}, {2, 1}}).code.size(), 1u);
  EXPECT_EQ(compile(parse_message("sum_last(u0) * v1"), {{1}, {5}}).code.size(), 1u);
  EXPECT_EQ(compile(parse_message("sum_last(u0)"), {{}}).code.size(), 0u);
}

// The shape of a message is what counts, not that of each operand.
TEST(Compile, AnOperandUnderASumNeedNotFitTheRest) {
  MessageProgram program;
  ASSERT_EQ(error_of([&] { program = compile(parse_message("sum_last(u0) * v1"), {{4}, {5}}); }),
            "no error");
  EXPECT_EQ(program.out_shape, FeatureShape({5}));
}

TEST(Compile, ReducesToAShape) {
  const Message message = parse_message("u0 * v1");
  MessageProgram program = compile(message, {{2, 3}, {2, 3}}, FeatureShape{2, 1});
  EXPECT_TRUE(program.reduces);
  EXPECT_EQ(program.out.kind, Kind::kHead);
  EXPECT_EQ(program.out_elements, 2);
  program = compile(message, {{2, 3}, {2, 3}}, FeatureShape{3});
  EXPECT_TRUE(program.reduces);
  EXPECT_EQ(program.out.kind, Kind::kTile);
  program = compile(message, {{2, 3}, {2, 3}}, FeatureShape{});
  EXPECT_TRUE(program.reduces);
  EXPECT_EQ(program.out_elements, 1);
  program = compile(message, {{2, 3}, {2, 3}}, FeatureShape{2, 3});
  EXPECT_FALSE(program.reduces);
}

TEST(Compile, ErrorsOfReduceTo) {
  const Message message = parse_message("u0 * v1");
  const auto error = [&](const FeatureShape& to) {
    return error_of([&] { compile(message, {{2, 3}, {3}}, to); });
  };
  EXPECT_EQ(error({4}), "a message of shape [2, 3] cannot be summed to [4]");
  EXPECT_EQ(error({1, 2, 3}), "a message of shape [2, 3] cannot be summed to [1, 2, 3]");
  EXPECT_EQ(error_of([&] { compile(parse_message("dot(u0, v1)"), {{4}, {4}}, FeatureShape{4}); }),
            "a message of shape [1] cannot be summed to [4]");
}

// Such messages are left to torch's operators.
TEST(Program, IsNotFusedWhereNoOneRowFitsAllOperands) {
  EXPECT_TRUE(compile(parse_message("dot(u0, v1)"), {{2, 3}, {2, 3}}).is_fused);
  const MessageProgram of_nothing = compile(parse_message("dot(u0, v1)"), {{2, 0}, {2, 0}});
  EXPECT_FALSE(of_nothing.is_fused);
  EXPECT_EQ(of_nothing.out_shape, (FeatureShape{2, 1}));
  const MessageProgram of_two_sums = compile(parse_message("sum_last(u0) * e1"), {{4}, {5}});
  EXPECT_FALSE(of_two_sums.is_fused);
  EXPECT_EQ(of_two_sums.out_shape, (FeatureShape{5}));
  EXPECT_TRUE(compile(parse_message("u0 + v1"), {{0}, {0}}).is_fused);
}

}  // namespace
}  // namespace smex::kernels
