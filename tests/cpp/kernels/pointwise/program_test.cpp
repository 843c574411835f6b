#include "kernels/pointwise/program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

namespace smex::kernels {
namespace {

std::string error_of(const std::string& text, int num_operands = 2) {
  try {
    parse_pointwise(text, num_operands);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(PointwiseProgram, ReadsCalls) {
  const PointwiseProgram program = parse_pointwise("sigmoid 0;constant =0.5;mul 2 3 > 4 0", 2);
  ASSERT_EQ(program.code.size(), 3u);
  EXPECT_EQ(program.code[0].op, MessageOp::kSigmoid);
  EXPECT_EQ(program.code[1].value, 0.5);
  EXPECT_EQ(program.code[2].op, MessageOp::kMul);
  EXPECT_EQ(program.outs.size(), 2u);
  EXPECT_EQ(program.outs[1], 0);
}

TEST(PointwiseProgram, ValuesThatAreDoneGiveTheirSlots) {
  const PointwiseProgram chain = parse_pointwise("exp 0;exp 1;exp 2;exp 3 > 4", 1);
  EXPECT_EQ(chain.num_slots, 2);
  const PointwiseProgram kept = parse_pointwise("exp 0;exp 1;exp 2;exp 3 > 1 2 3 4", 1);
  EXPECT_EQ(kept.num_slots, 5);
  const PointwiseProgram twice = parse_pointwise("exp 0;mul 1 1;exp 2;add 2 3 > 4", 1);
  EXPECT_NE(twice.code[2].out, twice.code[3].b == twice.code[2].out ? twice.code[3].a : -1);
}

TEST(PointwiseProgram, SaysWhatIsWrong) {
  EXPECT_NE(error_of("exp 0").find("expected \">\""), std::string::npos);
  EXPECT_NE(error_of("exp 0 >").find("numbers of the results"), std::string::npos);
  EXPECT_NE(error_of("frob 0 > 2").find("there is no operation \"frob\""), std::string::npos);
  EXPECT_NE(error_of("sum_last 0 > 2").find("there is no operation"), std::string::npos);
  EXPECT_NE(error_of("exp 0 1 > 2").find("expected 1 arguments of exp, found 2"),
            std::string::npos);
  EXPECT_NE(error_of("exp 2 > 2").find("number of a value below 2"), std::string::npos);
  EXPECT_NE(error_of("add 0 =1 > 2").find("takes no number"), std::string::npos);
  EXPECT_NE(error_of("pow 0 1 > 2").find("takes a number"), std::string::npos);
  EXPECT_NE(error_of("exp 0 > 3").find("number of a value below 3"), std::string::npos);
}

TEST(PointwiseKernel, OutsMayLieWhereOperandsAre) {
  const PointwiseProgram program = parse_pointwise("add 0 1;mul 2 0 > 2 3", 2);
  constexpr int64_t kRows = 3, kWidth = 1100;  // several blocks, and a part of one
  std::vector<double> a(kRows * kWidth), b(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = 0.25 * static_cast<double>(i);
    b[i] = 1 - a[i] / 3;
  }
  const std::vector<double> old_a = a, old_b = b;
  const PointwiseOperand<double> operands[] = {{a.data(), kWidth, 1}, {b.data(), kWidth, 1}};
  const PointwiseOut<double> outs[] = {{a.data(), kWidth}, {b.data(), kWidth}};
  SMEX_PICK(run_pointwise<double>)({&program, operands, outs}, 0, kRows, 0, kWidth);
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_DOUBLE_EQ(a[i], old_a[i] + old_b[i]);
    ASSERT_DOUBLE_EQ(b[i], (old_a[i] + old_b[i]) * old_a[i]);
  }
}

TEST(PointwiseKernel, RepeatsRowsAndColumns) {
  const PointwiseProgram program = parse_pointwise("mul 0 1;add 3 2 > 4", 3);
  const std::vector<float> row = {1, 2, 3}, column = {10, 20}, whole = {.5, .25, 0, 1, 2, 3};
  const PointwiseOperand<float> operands[] = {
      {row.data(), 0, 1}, {column.data(), 1, 0}, {whole.data(), 3, 1}};
  std::vector<float> found(6);
  const PointwiseOut<float> outs[] = {{found.data(), 3}};
  SMEX_PICK(run_pointwise<float>)({&program, operands, outs}, 0, 2, 0, 3);
  EXPECT_EQ(found, (std::vector<float>{10.5, 20.25, 30, 21, 42, 63}));
}

}  // namespace
}  // namespace smex::kernels
