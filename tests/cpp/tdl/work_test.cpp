// How much arithmetic Specs ask for.
#include <gtest/gtest.h>

#include "tdl/expr.h"
#include "tdl/spec.h"
#include "tdl/text.h"

namespace smex::tdl {
namespace {

double of(const std::string& text, const std::vector<int64_t>& extents) {
  return arithmetic(parse_spec(text), extents);
}

TEST(Arithmetic, CountsAdditionsAndMultiplications) {
  const char* product =
      "index i=3, j=4, k=5 input [3,5], [5,4] [i,j] = sum{k}(mul(#0[i, k], #1[k, j]))";
  EXPECT_EQ(of(product, {3, 4, 5}), 2 * 3 * 4 * 5);
  EXPECT_EQ(of(product, {1, 4, 2}), 2 * 1 * 4 * 2);
  EXPECT_EQ(of("index i=6 input [6] [i] = add(exp(#0[i]), 1)", {6}), 2 * 6);
  EXPECT_EQ(of("index i=6 input [6] [i] = #0[i]", {6}), 0);
  EXPECT_EQ(of("index i=6 input [6] [i] = sort<#0[:]>", {6}), 0);
}

TEST(Arithmetic, OfWhatRowsShareIsThatOfARow) {
  // max, exp, sub, sum and div, once an element each, and the subtraction in both places.
  const char* softmax =
      "index i=5, j=7, m=7, k=7 input [5,7] "
      "[i,j] = div(exp(sub(#0[i, j], max{m}(#0[i, m]))), "
      "sum{k}(exp(sub(#0[i, k], max{m}(#0[i, m])))))";
  EXPECT_EQ(of(softmax, {5, 7, 7, 7}), 5 * 7 * (3 + 1 + 1 + 2 + 1));
  EXPECT_EQ(of("index i=5, j=7 input [5] [i,j] = exp(#0[i])", {5, 7}), 5);
}

TEST(Arithmetic, OfAWeightedMeanIsThatOfItsScoresAndValues) {
  const std::string mean =
      "index i=5, j=7, e=3 input [5,7], [7,3] [i,e] = softmaxmean{j}(#1[j, e], neg(#0[i, j]))";
  EXPECT_EQ(of(mean, {5, 7, 3}), 5 * 7 * 3 + 2 * 5 * 7 * 3);
  // The sum of the weights comes with it.
  EXPECT_EQ(of(mean + " [i] = logsumexp{j}(neg(#0[i, j]))", {5, 7, 3}), of(mean, {5, 7, 3}));
  EXPECT_EQ(of("index i=5, j=7 input [5,7] [i] = logsumexp{j}(neg(#0[i, j]))", {5, 7}), 2 * 5 * 7);
}

TEST(Arithmetic, OfWindowsThatLandIsThatOfTheWindows) {
  // Every place and element of a window lands on one i: 4 places of 3 elements.
  const char* landing =
      "index i=6, o=4, k=3 input [4], [3] "
      "[i] = sum{o, k}(where(lands(i, add(o, k)), mul(#0[o], #1[k]), 0))";
  EXPECT_EQ(of(landing, {6, 4, 3}), 2 * 4 * 3);
}

TEST(Arithmetic, OfRowsThatAreFoundIsThatOfTheRows) {
  // Each of the 5 tokens is of one of the 100 rows; a sum of 5 rows of 8.
  const char* rows =
      "index v=100, e=8, t=5 input [5,8], [5] "
      "[v,e] = sum{t}(where(eq(v, #1[t]), #0[t, e], 0))";
  EXPECT_EQ(of(rows, {100, 8, 5}), 5 * 8);
}

}  // namespace
}  // namespace smex::tdl
