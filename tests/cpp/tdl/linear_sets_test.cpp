// In which operands a Spec is linear, against the interpreter.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tdl/interpreter.h"
#include "tdl/spec.h"
#include "tdl/text.h"

namespace smex::tdl {
namespace {

using Sets = std::vector<uint64_t>;

Sets of(const std::string& text) { return linear_sets(parse_spec(text)); }

TEST(LinearSets, OfProductsAndSums) {
  EXPECT_EQ(of("index i=2, j=2, k=2 input [2,2], [2,2] [i,j] = sum{k}(mul(#0[i, k], #1[k, j]))"),
            (Sets{0b01, 0b10}));
  EXPECT_EQ(of("index i=3 input [3], [3] [i] = add(#0[i], mul(#1[i], 2))"), Sets{0b11});
  EXPECT_EQ(of("index i=3 input [3], [3] [i] = sub(neg(#0[i]), #1[i])"), Sets{0b11});
  EXPECT_EQ(of("index i=3 input [3], [3] [i] = div(#0[i], #1[i])"), Sets{0b01});
  EXPECT_EQ(of("index i=3 input [3] [i] = add(#0[i], 0)"), Sets{0b1});
  EXPECT_EQ(of("index i=3, j=2 input [3,2] [j] = sum{i}(#0[i, j])"), Sets{0b1});
  EXPECT_EQ(of("index i=3 input [3], [3] [i] = where(gt(#0[i], 0), #1[i], 0)"), Sets{0b10});
  EXPECT_EQ(of("index i=3 input [3], [3] [] = softmaxmean{i}(#0[i], #1[i])"), Sets{0b01});
}

TEST(LinearSets, OfNothingElse) {
  EXPECT_TRUE(of("index i=3 input [3] [i] = exp(#0[i])").empty());
  EXPECT_TRUE(of("index i=3 input [3] [i] = add(#0[i], 1)").empty());
  EXPECT_TRUE(of("index i=3 input [3] [i] = mul(#0[i], #0[i])").empty());
  EXPECT_TRUE(of("index i=3 input [3] [] = max{i}(#0[i])").empty());
  EXPECT_TRUE(of("index i=3 input [3] [] = logsumexp{i}(#0[i])").empty());
  EXPECT_TRUE(of("index i=3 input [3] [] = softmaxmean{i}(#0[i], #0[i])").empty());
  EXPECT_TRUE(of("index i=3 input [3] [i] = where(gt(#0[i], 0), #0[i], 0)").empty());
  EXPECT_TRUE(of("index i=3 input [3] [i] = sort<#0[:]>").empty());
  EXPECT_TRUE(of("index i=3 input [3], [3] [i] = #0[#1[i]]").size() == 1);  // linear in the data
}

TEST(LinearSets, AreThoseInWhichSumsOfInputsGiveSumsOfOutputs) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> number(-2, 2);
  for (const char* text :
       {"index i=2, j=3, k=4 input [2,4], [4,3] [i,j] = sum{k}(mul(#0[i, k], #1[k, j]))",
        "index i=3 input [3], [3] [i] = add(#0[i], mul(#1[i], 2))",
        "index i=3 input [3], [3], [3] [i] = mul(add(#0[i], #1[i]), sigmoid(#2[i]))",
        "index i=3 input [3], [3], [3] [i] = where(gt(#2[i], 0), #0[i], neg(#1[i]))",
        "index i=3 input [3], [3] [i] = add(mul(#0[i], #1[i]), #0[i])",
        "index i=30 input [30], [30] [i] = max(#0[i], #1[i])"}) {
    const Spec spec = parse_spec(text);
    const Sets sets = linear_sets(spec);
    const auto draw = [&] {
      std::vector<Tensor> inputs;
      for (const Shape& shape : spec.input_shapes) {
        Tensor& input = inputs.emplace_back();
        input.shape = shape;
        input.data.resize(Region::whole(shape).numel());
        for (double& x : input.data) x = number(random);
      }
      return inputs;
    };
    for (uint64_t set = 1; set < uint64_t{1} << spec.input_shapes.size(); ++set) {
      const std::vector<Tensor> a = draw();
      std::vector<Tensor> b = draw(), sum = a;
      for (size_t i = 0; i < a.size(); ++i) {
        if (!(set >> i & 1)) b[i] = a[i];
        for (size_t n = 0; set >> i & 1 && n < a[i].data.size(); ++n)
          sum[i].data[n] += b[i].data[n];
      }
      const auto x = evaluate(spec, a)[0].data, y = evaluate(spec, b)[0].data;
      const auto z = evaluate(spec, sum)[0].data;
      bool additive = true;
      for (size_t n = 0; n < z.size(); ++n) {
        additive = additive && std::fabs(x[n] + y[n] - z[n]) < 1e-9;
      }
      EXPECT_EQ(std::count(sets.begin(), sets.end(), set) > 0, additive) << text << " set " << set;
    }
  }
}

}  // namespace
}  // namespace smex::tdl
