#include "tdl/text.h"

#include <gtest/gtest.h>

#include "ir/error.h"

namespace smex::tdl {
namespace {

TEST(Text, RoundTrip) {
  for (const char* text : {
           "index i=2, j=4, k=3\ninput [2,3], [3,4]\n[i,j] = sum{k}(mul(#0[i, k], #1[k, j]))\n",
           "index o=4, k=3!\ninput [9]\n[o] = max{k}(#0{-inf}[sub(add(mul(o, 2), k), 1)])\n[o] = "
           "none\n",
           "index n=2\ninput [2,3], []\n[n] = f<#0[n, :], #1[]>\n",
           "index j=2\ninput [2], [2]\n[] = softmaxmean{j}(#0[j], #1[j])\n"
           "[] = logsumexp{j}(#1[j])\n",
           "index \ninput \n[] = 0.25\n",
           "index \ninput [1]\n[] = #0[0]\n",
       }) {
    EXPECT_EQ(print_spec(parse_spec(text)), text);
  }
}

TEST(Text, Summary) {
  EXPECT_EQ(parse_spec("index i=2, j=4, k=3 input [2,3], [3,4] "
                       "[i,j] = sum{k}(mul(#0[i,k], #1[k,j]))")
                .str(),
            "([i,k],[k,j]) -> [i,j]  sum{k}");
}

TEST(Text, ErrorsNameThePlace) {
  try {
    parse_spec("index i=2 input [2] [i] = #0[j]");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "parse_spec: at character 29: expected a declared index or a function, found 'j'");
  }
  EXPECT_THROW(parse_spec("index i=2 input [2,2] [i] = #0[i]"), UserError);
  EXPECT_THROW(parse_spec("index i=2 input [2] [i] = #1[i]"), UserError);
  EXPECT_THROW(parse_spec("index i=2 input [2] [i] = #0[:]"), UserError);
  EXPECT_THROW(parse_spec("index i=2 input [2] [i] = sum{i}(#0[i])"), UserError);
  EXPECT_THROW(parse_spec("index i=2 input [2] [i] = #0[i"), UserError);
  EXPECT_THROW(parse_spec("index i=2 input [2] [] = softmaxmean{i}(#0[i])"), UserError);
  EXPECT_THROW(parse_spec("index i=2 input [2] [] = logsumexp{i}(#0[i], #0[i])"), UserError);
}

}  // namespace
}  // namespace smex::tdl
