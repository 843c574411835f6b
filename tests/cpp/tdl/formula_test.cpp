// Formulas of Specs: their text, and what the kernel makes of it against the interpreter.
#include "tdl/formula.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "../kernels/pointwise/run.h"
#include "tdl/interpreter.h"
#include "tdl/text.h"

namespace smex::tdl {
namespace {

std::optional<std::string> formula_of(const std::string& text) {
  const Spec spec = parse_spec(text);
  std::vector<std::string> names;
  for (size_t i = 0; i < spec.input_shapes.size(); ++i) names.push_back("x" + std::to_string(i));
  const auto found = formula(spec, names);
  return found ? std::optional(found->text) : std::nullopt;
}

TEST(Formula, IsWhatTheSpecComputes) {
  EXPECT_EQ(formula_of("index i=2, j=3 input [2,3], [3] [i,j] = mul(#0[i,j], #1[j])"),
            "(x0) * (x1)");
  EXPECT_EQ(formula_of("index i=2, j=3 input [2,3], [2,1] [i,j] = sub(#0[i,j], #1[i,0])"),
            "(x0) - (x1)");
  EXPECT_EQ(formula_of("index i=2 input [2], [] [i] = add(#0[i], mul(0.5, #1[]))"),
            "(x0) + ((0.5) * (x1))");
  EXPECT_EQ(formula_of("index i=2 input [2] [i] = pow(#0[i], 2)"), "pow(x0, 2)");
  EXPECT_EQ(formula_of("index i=2 input [2], [2] [i] = where(le(#1[i], 0), 0, #0[i])"),
            "select(1 - (less_equal(x1, 0)), x0)");
}

TEST(Formula, UsesTheNamesItIsGiven) {
  const Spec spec = parse_spec("index i=2 input [2], [2] [i] = sub(#0[i], #1[i])");
  const auto found = formula(spec, {"x7", "x3"});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text, "(x7) - (x3)");
  EXPECT_EQ(found->operations, 1);
}

TEST(Formula, IsOfNothingElse) {
  const char* const others[] = {
      "index i=2, k=3 input [2,3] [i] = sum{k}(#0[i,k])",       // adds up
      "index i=2, j=3 input [3,2] [i,j] = neg(#0[j,i])",        // turns round
      "index i=2 input [4] [i] = neg(#0[add(i, 2)])",           // moves
      "index i=2 input [3] [i] = neg(#0[1])",                   // picks one that is not the first
      "index i=2 input [2] [i] = neg(#0{0}[add(i, 1)])",        // pads
      "index i=2 input [2] [i] = #0[i]",                        // a copy
      "index i=2 input [2] [i] = mul(#0[i], i)",                // an index as a number
      "index i=2 input [2], [2] [i] = neg(#0[i])",              // an operand without meaning
      "index i=2 input [2] [i] = like(1, #0[i])",               // likewise
      "index i=2 input [2] [i] = neg(#0[i]) [i] = exp(#0[i])",  // two outputs
      "index i=2 input [2] [i] = log(#0[i])",                   // ATen's is faster
      "index i=2 input [2] [i] = pow(#0[i], 0.3)",              // likewise
      "index i=2 input [2] [i] = sort<#0[i]>",                  // unknown
      "index i=2 input [2], [2] [i] = and(#0[i], #1[i])",       // of numbers, not conditions
      "index i=2 input [2], [2] [i] = where(#0[i], #1[i], 0)",  // likewise
  };
  for (const char* const text : others) EXPECT_EQ(formula_of(text), std::nullopt) << text;
}

TEST(Formula, ThatIsLongIsRefused) {
  std::string body = "#0[i]";
  for (int n = 0; n < 12; ++n) body = "add(" + body + ", " + body + ")";
  EXPECT_EQ(formula_of("index i=2 input [2] [i] = " + body), std::nullopt);
}

constexpr double kInf = std::numeric_limits<double>::infinity();

/// Two operands with all pairs of numbers that are special.
std::vector<Tensor> special_pairs() {
  const double numbers[] = {0., -0., 1, -1, 0.5, 3, -2.5, kInf, -kInf, std::nan("")};
  std::vector<Tensor> pair(2);
  for (const double a : numbers) {
    for (const double b : numbers) {
      pair[0].data.push_back(a);
      pair[1].data.push_back(b);
    }
  }
  for (Tensor& tensor : pair) tensor.shape = {static_cast<int64_t>(tensor.data.size())};
  return pair;
}

/// What the kernel computes by the formula.
std::vector<double> computed(const Spec& spec, const std::vector<Tensor>& operands) {
  const auto found = formula(spec, {"x0", "x1"});
  return kernels::run_pointwise_text(found->text + " > x2",
                                     {&operands[0].data, &operands[1].data})[0];
}

// Every function that formulas know, at numbers among which are zeros of both signs, infinities and
// NaN.
TEST(Formula, ComputesWhatTheInterpreterDoes) {
  const std::string bodies[] = {
      "add(#0[i], #1[i])",
      "sub(#0[i], #1[i])",
      "mul(#0[i], #1[i])",
      "div(#0[i], #1[i])",
      "sub(1, mul(#0[i], #1[i]))",
      "div(2, add(#0[i], #1[i]))",
      "max(#0[i], #1[i])",
      "min(#0[i], #1[i])",
      "add(abs(#0[i]), neg(#1[i]))",
      "add(exp(#0[i]), sqrt(#1[i]))",
      "add(tanh(#0[i]), sigmoid(#1[i]))",
      "add(relu(#0[i]), reciprocal(#1[i]))",
      "add(rsqrt(#0[i]), pow(#1[i], 3))",
      "add(pow(#0[i], -1), pow(#1[i], -2))",
      "where(gt(#0[i], #1[i]), #0[i], 0)",
      "where(ge(#0[i], #1[i]), 0, #1[i])",
      "where(lt(#0[i], #1[i]), #0[i], #1[i])",
      "where(and(ne(#0[i], 0), le(#1[i], 1)), neg(#0[i]), #1[i])",
      "where(or(eq(#0[i], 0), not(eq(#1[i], 1))), #1[i], #0[i])",
      "where(isnan(#0[i]), #1[i], #0[i])",
  };
  const std::vector<Tensor> operands = special_pairs();
  const std::string head = "index i=" + std::to_string(operands[0].data.size());
  const std::string size = "[" + std::to_string(operands[0].data.size()) + "]";
  for (const std::string& body : bodies) {
    const Spec spec = parse_spec(head + " input " + size + ", " + size + " [i] = " + body);
    ASSERT_TRUE(formula(spec, {"x0", "x1"})) << body;
    const std::vector<double> found = computed(spec, operands);
    const std::vector<double> wanted = evaluate(spec, operands)[0].data;
    for (size_t n = 0; n < found.size(); ++n) {
      const double a = operands[0].data[n], b = operands[1].data[n];
      ASSERT_EQ(std::isnan(found[n]), std::isnan(wanted[n])) << body << " of " << a << ", " << b;
      if (std::isnan(wanted[n])) continue;
      if (std::isinf(wanted[n])) {
        ASSERT_EQ(found[n], wanted[n]) << body << " of " << a << ", " << b;
      } else {
        ASSERT_NEAR(found[n], wanted[n], 1e-14 * (1 + std::abs(wanted[n])))
            << body << " of " << a << ", " << b;
      }
    }
  }
}

}  // namespace
}  // namespace smex::tdl
