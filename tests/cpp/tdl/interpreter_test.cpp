#include "tdl/interpreter.h"

#include <gtest/gtest.h>

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
