#include "tdl/interpreter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ir/error.h"
#include "tdl/text.h"

namespace smex::tdl {
namespace {

TEST(Interpreter, MatrixProduct) {
  const Spec spec =
      parse_spec("index i=2, j=1, k=2 input [2,2], [2,1] [i,j] = sum{k}(mul(#0[i,k], #1[k,j]))");
  const auto out = evaluate(spec, {{{1, 2, 3, 4}, {2, 2}}, {{5, 6}, {2, 1}}});
  EXPECT_EQ(out[0].shape, (Shape{2, 1}));
  EXPECT_EQ(out[0].data, (std::vector<double>{17, 39}));
}

TEST(Interpreter, WhereTakesOneBranch) {
  const Spec spec = parse_spec("index i=3 input [2] [i] = where(lt(i, 2), #0[i], -1)");
  EXPECT_EQ(evaluate(spec, {{{7, 8}, {2}}})[0].data, (std::vector<double>{7, 8, -1}));
}

TEST(Interpreter, PadsOutside) {
  const Spec spec = parse_spec("index i=3 input [2] [i] = #0{9}[sub(i, 1)]");
  EXPECT_EQ(evaluate(spec, {{{7, 8}, {2}}})[0].data, (std::vector<double>{9, 7, 8}));
}

TEST(Interpreter, EmptyReductionGivesIdentity) {
  const Spec spec = parse_spec("index k=0 input [0] [] = sum{k}(#0[k]) [] = prod{k}(#0[k])");
  const auto out = evaluate(spec, {{{}, {0}}});
  EXPECT_EQ(out[0].data, std::vector<double>{0});
  EXPECT_EQ(out[1].data, std::vector<double>{1});
}

TEST(Interpreter, WeightedMeans) {
  const Spec spec = parse_spec(
      "index j=3 input [3], [3] [] = softmaxmean{j}(#0[j], #1[j]) [] = logsumexp{j}(#1[j])");
  const auto of = [&](std::vector<double> scores) {
    const auto out = evaluate(spec, {{{1, 2, 4}, {3}}, {std::move(scores), {3}}});
    return std::pair(out[0].data[0], out[1].data[0]);
  };
  const double inf = std::numeric_limits<double>::infinity();
  const auto [mean, sum] = of({0, std::log(2), std::log(5)});
  EXPECT_NEAR(mean, (1 + 4 + 20) / 8.0, 1e-15);
  EXPECT_NEAR(sum, std::log(8), 1e-15);
  EXPECT_NEAR(of({1000, -inf, 1000}).first, 2.5, 1e-12);  // without overflow
  EXPECT_EQ(of({-inf, -inf, -inf}), std::pair(0.0, -inf));
}

TEST(Interpreter, FunctionsOfTheStandardLibrary) {
  const double x = 0.5, y = -3;
  const std::vector<std::pair<const char*, double>> expected = {
      {"acos(#0[0])", std::acos(x)},
      {"acosh(#1[0])", std::acosh(y)},
      {"asin(#0[0])", std::asin(x)},
      {"asinh(#1[0])", std::asinh(y)},
      {"atan(#1[0])", std::atan(y)},
      {"atan2(#0[0], #1[0])", std::atan2(x, y)},
      {"atanh(#0[0])", std::atanh(x)},
      {"copysign(#0[0], #1[0])", -0.5},
      {"cosh(#1[0])", std::cosh(y)},
      {"erfc(#0[0])", std::erfc(x)},
      {"exp2(#1[0])", 0.125},
      {"fmod(#1[0], #0[0])", -0.0},
      {"hypot(4, #1[0])", 5},
      {"lgamma(#0[0])", std::lgamma(x)},
      {"log10(100)", 2},
      {"log2(#0[0])", -1},
      {"nextafter(#0[0], #1[0])", std::nextafter(x, y)},
      {"signbit(#1[0])", 1},
      {"sinh(#1[0])", std::sinh(y)},
      {"tan(#0[0])", std::tan(x)},
      {"tgamma(#0[0])", std::tgamma(x)},
  };
  for (const auto& [text, value] : expected) {
    const Spec spec = parse_spec(std::string("index input [1], [1] [] = ") + text);
    const double found = evaluate(spec, {{{x}, {1}}, {{y}, {1}}})[0].data[0];
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(found)) << text;
    } else {
      EXPECT_DOUBLE_EQ(found, value) << text;
      EXPECT_EQ(std::signbit(found), std::signbit(value)) << text;
    }
  }
}

TEST(Interpreter, RefusesWhatItCannotKnow) {
  const Tensor x{{1, 2}, {2}};
  EXPECT_THROW(evaluate(parse_spec("index i=2 input [2] [i] = f<#0[:]>"), {x}), UserError);
  EXPECT_THROW(evaluate(parse_spec("index i=2 input [2] [i] = nonsense(#0[i])"), {x}), UserError);
  EXPECT_THROW(evaluate(parse_spec("index i=3 input [2] [i] = #0[i]"), {x}), UserError);
  EXPECT_THROW(evaluate(parse_spec("index i=2 input [3] [i] = #0[i]"), {x}), UserError);
  EXPECT_THROW(evaluate(parse_spec("index i=2 input [2] [i] = #0[i]"), {}), UserError);
}

}  // namespace
}  // namespace smex::tdl
