#include "kernels/message/device_program.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/message/apply.h"

namespace smex::kernels {
namespace {

int64_t element(const Broadcast& broadcast, int64_t i) {
  switch (broadcast.kind) {
    case Broadcast::Kind::kFull:
      return i;
    case Broadcast::Kind::kScalar:
      return 0;
    case Broadcast::Kind::kHead:
      return i / broadcast.inner;
    case Broadcast::Kind::kTile:
      return i % broadcast.inner;
    default:
      return broadcast.table[i];
  }
}

TEST(StridedIndex, IsTheBroadcastOfTheCpusKernels) {
  const FeatureShape whole = {2, 3, 1, 4, 5};
  for (const FeatureShape& part : {FeatureShape{},
                                   {1},
                                   {5},
                                   {4, 5},
                                   {4, 1},
                                   {3, 1, 4, 5},
                                   {3, 1, 1, 5},
                                   {2, 1, 1, 4, 1},
                                   {2, 3, 1, 4, 5},
                                   {1, 3, 1, 1, 5},
                                   {2, 3, 1, 1, 1}}) {
    const auto index = strided_index(part, whole);
    ASSERT_TRUE(index.has_value());
    const Broadcast broadcast = broadcast_of(part, whole);
    for (int64_t i = 0; i < 120; ++i) EXPECT_EQ(index->of(i), element(broadcast, i));
  }
}

TEST(StridedIndex, DoesNotNeedMoreDimensionsThanChange) {
  const auto full = strided_index({2, 3, 4}, {2, 3, 4});
  EXPECT_EQ(full->num_dims, 1);
  const auto heads = strided_index({2, 3, 1, 1}, {2, 3, 4, 5});
  EXPECT_EQ(heads->num_dims, 2);
  EXPECT_FALSE(strided_index({2, 1, 2, 1, 2, 1, 2}, {2, 2, 2, 2, 2, 2, 2}).has_value());
}

TEST(StridedIndex, QuotientsOfNumbersBeyond32Bits) {
  constexpr int64_t kLarge = int64_t{1} << 40;
  EXPECT_EQ(StridedIndex::quotient(kLarge + 5, 7), (kLarge + 5) / 7);
  EXPECT_EQ(StridedIndex::quotient(kLarge + 5, kLarge), 1);
  EXPECT_EQ(StridedIndex::quotient(5, kLarge), 0);
  EXPECT_EQ(StridedIndex::quotient(0xffffffff, 3), 0x55555555);
}

std::optional<DeviceProgram> translate(const std::string& text,
                                       const std::vector<FeatureShape>& shapes) {
  return to_device(compile(parse_message(text), shapes), shapes);
}

TEST(DeviceProgram, UsesRegistersAgain) {
  // A sum of many terms, each needed once: two registers at a time.
  std::string text = "u0";
  for (int i = 0; i < 20; ++i) text = "exp(" + text + " + e1)";
  const auto program = translate(text, {{4}, {4}});
  ASSERT_TRUE(program.has_value());
  EXPECT_EQ(program->num_instructions, 42);
  for (int i = 0; i < program->num_instructions; ++i) EXPECT_LT(program->code[i].out, 3);
}

TEST(DeviceProgram, ReadsAnOperandOnce) {
  const auto program = translate("u0 * u0 + u0", {{4}});
  int loads = 0;
  for (int i = 0; i < program->num_instructions; ++i)
    loads += program->code[i].op == MessageOp::kOperand;
  EXPECT_EQ(loads, 1);
}

TEST(DeviceProgram, KnowsWhetherDestinationsAreRead) {
  EXPECT_FALSE(translate("u0 * e1", {{4}, {4}})->reads_destination);
  EXPECT_TRUE(translate("u0 * v1", {{4}, {4}})->reads_destination);
}

TEST(DeviceProgram, RefusesWhatIsTooLong) {
  std::string text = "u0";
  for (int i = 0; i < 60; ++i) text = "exp(" + text + " + e1)";
  EXPECT_FALSE(translate(text, {{4}, {4}}).has_value());
  // Terms that are all needed at the end.
  text = "e0";
  for (int i = 1; i < 14; ++i) text += " + e" + std::to_string(i);
  EXPECT_FALSE(translate(text, std::vector<FeatureShape>(14, FeatureShape{2})).has_value());
}

TEST(DeviceProgram, RefusesAResultWithoutElementsToComputeItFrom) {
  EXPECT_FALSE(translate("dot(u0, v1)", {{0}, {0}}).has_value());
  EXPECT_TRUE(translate("u0", {{0}}).has_value());
}

TEST(Apply, IsWhatTheOperationsSay) {
  EXPECT_EQ(apply(MessageOp::kLeakyRelu, -2.0, 0.0, 0.25), -0.5);
  EXPECT_EQ(apply(MessageOp::kPow, 3.0, 0.0, 2.0), 9);
  EXPECT_EQ(apply(MessageOp::kPow, 4.0, 0.0, 0.5), 2);
  EXPECT_EQ(apply(MessageOp::kGreater, 1.0, 1.0, 0.0), 0.5);
  EXPECT_EQ(apply(MessageOp::kGreater, 1.0, 2.0, 0.0), 0);
  EXPECT_EQ(apply(MessageOp::kGreater, NAN, 2.0f, 0.0f), 1);
  EXPECT_EQ(apply(MessageOp::kLess, 1.0, 2.0, 0.0), 1);
  EXPECT_EQ(apply(MessageOp::kLess, 2.0, 2.0, 0.0), 0);
  EXPECT_EQ(apply(MessageOp::kLessEqual, 2.0, 2.0, 0.0), 1);
  EXPECT_EQ(apply(MessageOp::kLessEqual, NAN, 2.0f, 0.0f), 0);
  EXPECT_EQ(apply(MessageOp::kEqual, 2.0, 2.0, 0.0), 1);
  EXPECT_EQ(apply(MessageOp::kEqual, 1.0, 2.0, 0.0), 0);
  EXPECT_EQ(apply(MessageOp::kSelect, 1.0, 7.0, 0.0), 7);
  EXPECT_EQ(apply(MessageOp::kSelect, 0.0f, NAN, 0.0f), 0);
  EXPECT_DOUBLE_EQ(apply(MessageOp::kExpm1, 1e-20, 0.0, 0.0), 1e-20);
  EXPECT_DOUBLE_EQ(apply(MessageOp::kLog1p, 1e-20, 0.0, 0.0), 1e-20);
  EXPECT_DOUBLE_EQ(apply(MessageOp::kErf, 0.5, 0.0, 0.0), 0.5204998778130465);
  EXPECT_DOUBLE_EQ(apply(MessageOp::kSin, 0.5, 0.0, 0.0), 0.479425538604203);
  EXPECT_DOUBLE_EQ(apply(MessageOp::kCos, 0.5, 0.0, 0.0), 0.8775825618903728);
  EXPECT_EQ(apply(MessageOp::kSign, -3.0, 0.0, 0.0), -1);
  EXPECT_EQ(apply(MessageOp::kSign, NAN, 0.0f, 0.0f), 0);
  EXPECT_EQ(apply(MessageOp::kStep, NAN, 0.0f, 0.0f), 1);
  EXPECT_EQ(apply(MessageOp::kStep, 0.0, 0.0, 0.0), 0);
  EXPECT_EQ(apply(MessageOp::kRelu, -1.0f, 0.0f, 0.0f), 0);
  EXPECT_EQ(apply(MessageOp::kAbs, -2.5, 0.0, 0.0), 2.5);
  EXPECT_EQ(apply(MessageOp::kSigmoid, 0.0, 0.0, 0.0), 0.5);
  EXPECT_FLOAT_EQ(apply(MessageOp::kSigmoid, -200.0f, 0.0f, 0.0f), 0);
  EXPECT_TRUE(std::isnan(apply(MessageOp::kMaximum, NAN, 1.0f, 0.0f)));
  EXPECT_TRUE(std::isnan(apply(MessageOp::kMinimum, 1.0f, NAN, 0.0f)));
  EXPECT_TRUE(std::isnan(apply(MessageOp::kRelu, NAN, 0.0f, 0.0f)));
}

}  // namespace
}  // namespace smex::kernels
