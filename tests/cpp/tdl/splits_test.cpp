#include <gtest/gtest.h>

#include "tdl/spec.h"
#include "tdl/text.h"

namespace smex::tdl {
namespace {

/// "i j k+sum v/4": output splits, reductions with their kind, granules above 1.
std::string splits_of(const std::string& text) {
  const Spec spec = parse_spec(text);
  std::string result;
  for (const Split& split : derive_splits(spec)) {
    if (!result.empty()) result += " ";
    result += spec.indices[split.index].name;
    for (const auto& kind : split.reduces) {
      if (kind) result += *kind == ReduceKind::kSum ? "+sum" : "+other";
    }
    if (split.granule > 1) result += "/" + std::to_string(split.granule);
  }
  return result;
}

TEST(Splits, MatrixProduct) {
  EXPECT_EQ(splits_of("index i=2, j=4, k=3 input [2,3], [3,4] "
                      "[i,j] = sum{k}(mul(#0[i,k], #1[k,j]))"),
            "i j k+sum");
}

TEST(Splits, TheSameTensorTwice) {
  EXPECT_EQ(splits_of("index i=3, j=3, k=3 input [3,3] [i,j] = sum{k}(mul(#0[i,k], #0[k,j]))"), "");
}

TEST(Splits, SoftmaxNeedsTheRow) {
  EXPECT_EQ(splits_of("index i=2, j=3, k=3 input [2,3] "
                      "[i,j] = div(#0[i,j], sum{k}(#0[i,k]))"),
            "i");
}

/// A mean of #0, weighted by the exponentials of #1, and perhaps the sum of these.
std::string weighted(const std::string& sum) {
  return "index i=2, j=4, e=3 input [4,3], [2,4] "
         "[i,e] = softmaxmean{j}(#0[j,e], #1[i,j])" +
         sum;
}

TEST(Splits, AWeightedMeanDividesBesideTheSumOfItsWeights) {
  EXPECT_EQ(splits_of(weighted(" [i] = logsumexp{j}(#1[i,j])")), "i j+other+other e");
  EXPECT_EQ(weight_sums(parse_spec(weighted(" [i] = logsumexp{j}(#1[i,j])"))),
            (std::vector<int>{1, -1}));
}

TEST(Splits, AWeightedMeanAloneDoesNotDivide) {
  EXPECT_EQ(splits_of(weighted("")), "i e");
  EXPECT_EQ(splits_of(weighted(" [i] = logsumexp{j}(neg(#1[i,j]))")), "i e");
  EXPECT_EQ(splits_of(weighted(" [i] = sum{j}(#1[i,j])")), "i e");
}

TEST(Splits, MeansOfMeansDoNotMerge) {
  EXPECT_EQ(splits_of("index j=4, k=5 input [4,5], [4] "
                      "[] = softmaxmean{j}(softmaxmean{k}(#0[j,k], #0[j,k]), #1[j]) "
                      "[] = logsumexp{j}(#1[j])"),
            "j+other+other");
  EXPECT_EQ(splits_of("index j=4, k=5 input [4,5] [] = logsumexp{j}(logsumexp{k}(#0[j,k]))"),
            "j+other k+other");
}

TEST(Splits, NumbersForbid) {
  EXPECT_EQ(splits_of("index i=2, j=3 input [2,3] [i,j] = where(le(j, 1), #0[i,j], 0)"), "i");
}

TEST(Splits, SizeOneIsNotSplit) {
  EXPECT_EQ(splits_of("index i=1, j=3 input [1,3] [i,j] = #0[i,j]"), "j");
}

TEST(Splits, WindowSlidesAndKernelIsWhole) {
  EXPECT_EQ(splits_of("index o=4, k=3!, c=2 input [2,9], [2,3] "
                      "[o] = sum{c,k}(mul(#0{0}[c, sub(add(mul(o, 2), k), 1)], #1[c,k]))"),
            "o c+sum");
}

TEST(Splits, ReshapeGranules) {
  EXPECT_EQ(splits_of("index i=12 input [3,4] [i] = #0[floordiv(i, 4), mod(i, 4)]"), "i/4");
  EXPECT_EQ(splits_of("index i=3, j=4 input [12] [i,j] = #0[add(mul(i, 4), j)]"), "i");
  EXPECT_EQ(splits_of("index i=4, j=3 input [2,6] [i,j] = "
                      "#0[floordiv(add(mul(i, 3), j), 6), mod(add(mul(i, 3), j), 6)]"),
            "i/2");
}

TEST(Splits, ReductionMustBeOutermostInEveryOutput) {
  EXPECT_EQ(splits_of("index k=3 input [3] [] = div(sum{k}(#0[k]), 3)"), "");
  EXPECT_EQ(splits_of("index k=3 input [3] [] = sum{k}(#0[k]) [] = div(sum{k}(#0[k]), 3)"), "");
  EXPECT_EQ(splits_of("index k=3 input [3] [] = max{k}(#0[k]) [] = none"), "k+other");
}

TEST(Splits, EachOutputHasItsOwnKind) {
  EXPECT_EQ(splits_of("index k=3 input [3] [] = sum{k}(#0[k]) [] = max{k}(#0[k])"), "k+sum+other");
  EXPECT_EQ(splits_of("index k=3 input [3] [] = sum{k}(#0[k]) [k] = #0[k]"), "k+sum");
  const auto splits = derive_splits(
      parse_spec("index k=3 input [3], [2] [k] = #0[k] [] = none [] = max{k}(#0[k]) [] = #1[0]"));
  ASSERT_EQ(splits.size(), 1);
  const std::vector<std::optional<ReduceKind>> expected = {{}, {}, ReduceKind::kMax, {}};
  EXPECT_EQ(splits[0].reduces, expected);
}

TEST(Splits, AnOutputWithoutTheIndexIsMadeByEveryWorker) {
  const std::string first = "index n=4, d=6, b=4 input [9,6], [4] [n,d] = #0[#1[n], d] ";
  EXPECT_EQ(splits_of(first + "[b] = f<#1[:]>"), "d");
  EXPECT_EQ(splits_of(first + "[b] = f<#0[:,:]>"), "n");  // both read all rows of #0
  EXPECT_EQ(splits_of("index k=3 input [3] [] = div(sum{k}(#0[k]), 3) [k] = #0[k]"), "");
  EXPECT_EQ(splits_of("index k=3 input [3], [2] [] = sum{k}(#0[k]) [] = #1[0]"), "k+sum");
}

TEST(Splits, WindowsLandOnATileOfOneOutput) {
  const std::string first =
      "index y=9, o=4, k=3! input [4], [3] "
      "[y] = sum{o,k}(where(lands(y, add(mul(o, 2), k)), mul(#0[o], #1[k]), 0))";
  EXPECT_EQ(splits_of(first), "y");
  EXPECT_EQ(splits_of(first + " [k] = f<#0[:]>"), "");
}

TEST(Splits, OpaqueFreesOnlyWhatItReadsElementwise) {
  EXPECT_EQ(splits_of("index n=4, j=3 input [4,3] [n,j] = f<#0[n,:]>"), "n");
}

TEST(Splits, LookUp) {
  EXPECT_EQ(splits_of("index n=4, d=6 input [9,6], [4] [n,d] = #0[#1[n], d]"), "n d");
  EXPECT_EQ(splits_of("index n=4 input [9], [4] [n] = #0[add(#1[n], n)]"), "");
}

}  // namespace
}  // namespace smex::tdl
