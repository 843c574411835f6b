#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ir/error.h"
#include "tdl/expr.h"
#include "tdl/spec.h"
#include "tdl/text.h"

namespace smex::tdl {
namespace {

/// The need of input 0 when index 0 runs over `range` and the others are whole.
InputNeed need_of(const std::string& text, Interval range) {
  const Spec spec = parse_spec(text);
  IndexRanges ranges = full_ranges(spec);
  ranges[0] = range;
  return input_needs(spec, ranges)[0];
}

TEST(Interval, AffineIsExact) {
  const std::string text = "index i=5 input [20] [i] = #0[add(mul(i, 3), 2)]";
  EXPECT_EQ(need_of(text, {1, 3}).region.str(), "[5:9]");
}

TEST(Interval, RepeatedIndexIsMerged) {
  EXPECT_EQ(need_of("index i=5 input [5] [i] = #0[sub(mul(i, 2), i)]", {1, 3}).region.str(),
            "[1:3]");
}

TEST(Interval, NegativeCoefficientFlips) {
  EXPECT_EQ(need_of("index i=5 input [5] [i] = #0[sub(4, i)]", {0, 2}).region.str(), "[3:5]");
}

TEST(Interval, StridedDilatedPaddedWindow) {
  const std::string text =
      "index o=4, k=3! input [9] [o] = sum{k}(#0{0}[sub(add(mul(o, 2), mul(k, 2)), 1)])";
  const InputNeed first = need_of(text, {0, 1});
  EXPECT_EQ(first.unclamped.str(), "[-1:4]");
  EXPECT_EQ(first.region.str(), "[0:4]");
  const InputNeed last = need_of(text, {3, 4});
  EXPECT_EQ(last.unclamped.str(), "[5:10]");
  EXPECT_EQ(last.region.str(), "[5:9]");
}

TEST(Interval, QuotientAndRemainderWhereAligned) {
  const std::string text = "index i=12 input [3,4] [i] = #0[floordiv(i, 4), mod(i, 4)]";
  EXPECT_EQ(need_of(text, {4, 12}).region.str(), "[1:3, 0:4]");
  EXPECT_EQ(need_of(text, {5, 7}).region.str(), "[1:2, 1:3]");
  EXPECT_EQ(need_of(text, {3, 5}).region.str(), "[0:2, 0:4]");
}

TEST(Interval, DataDependentDimensionIsWhole) {
  const Spec spec = parse_spec("index n=4, d=6 input [9,6], [4] [n,d] = #0[#1[n], d]");
  const auto needs = input_needs(spec, {{1, 3}, {2, 5}});
  EXPECT_EQ(needs[0].region.str(), "[0:9, 2:5]");
  EXPECT_EQ(needs[1].region.str(), "[1:3]");
}

TEST(Interval, EmptyRangeNeedsNothing) {
  const Spec spec = parse_spec("index i=4, j=6 input [4,6] [i,j] = #0[i, j]");
  const auto needs = input_needs(spec, {{2, 2}, {0, 6}});
  EXPECT_TRUE(needs[0].region.empty());
  EXPECT_EQ(needs[0].region.shape(), (Shape{0, 6}));
}

TEST(Interval, SeveralReadsGiveTheirHull) {
  EXPECT_EQ(need_of("index i=4 input [9] [i] = add(#0[i], #0[add(i, 5)])", {1, 2}).region.str(),
            "[1:7]");
}

TEST(Interval, LikeAndUnreadInputsAreNotUsed) {
  const Spec spec = parse_spec("index i=4 input [4], [7] [i] = like(0, #0[i])");
  const auto needs = input_needs(spec, {{1, 2}});
  EXPECT_FALSE(needs[0].used);
  EXPECT_EQ(needs[0].region.str(), "[1:2]");
  EXPECT_FALSE(needs[1].used);
  EXPECT_EQ(needs[1].region.str(), "[0:7]");
}

/// A transposed convolution along one dimension: `places` windows of `size` elements.
Spec landing_spec(int64_t extent, int64_t places, int64_t size, int64_t stride, int64_t pad) {
  const auto text = [](int64_t value) { return std::to_string(value); };
  return parse_spec("index y=" + text(extent) + ", o=" + text(places) + ", k=" + text(size) +
                    "! input [" + text(places) + "] [y] = sum{o,k}(where(lands(y, sub(add(mul(o, " +
                    text(stride) + "), k), " + text(pad) + ")), #0[o], 0))");
}

TEST(Interval, ATileNeedsThePlacesWhoseWindowsLandOnIt) {
  const Spec spec = landing_spec(9, 4, 3, 2, 0);  // windows [0:3] [2:5] [4:7] [6:9]
  const auto need = [&](Interval tile) {
    IndexRanges ranges = full_ranges(spec);
    ranges[0] = tile;
    return input_needs(spec, ranges)[0].region.str();
  };
  EXPECT_EQ(need({0, 9}), "[0:4]");
  EXPECT_EQ(need({0, 2}), "[0:1]");
  EXPECT_EQ(need({3, 4}), "[1:2]");
  EXPECT_EQ(need({4, 5}), "[1:3]");
  EXPECT_EQ(need({7, 9}), "[3:4]");
}

TEST(Interval, LandingWindowsCoverEveryTile) {
  int gaps = 0;
  for (int64_t stride = 1; stride <= 4; ++stride) {
    for (int64_t size = 1; size <= 4; ++size) {
      for (int64_t pad = 0; pad < size; ++pad) {
        const int64_t places = 5;
        const int64_t extent = (places - 1) * stride + size - 2 * pad;
        const Spec spec = landing_spec(extent, places, size, stride, pad);
        EXPECT_TRUE(has_landings(spec));
        for (int64_t lo = 0; lo < extent; ++lo) {
          for (int64_t hi = lo + 1; hi <= extent; ++hi) {
            SCOPED_TRACE(print_spec(spec) + " tile " + std::to_string(lo) + ":" +
                         std::to_string(hi));
            IndexRanges ranges = full_ranges(spec);
            ranges[0] = {lo, hi};
            const Interval found = input_needs(spec, ranges)[0].region.dims[0];
            for (int64_t o = 0; o < places; ++o) {
              const Interval window = {o * stride - pad, o * stride - pad + size};
              const bool reaches = window.lo < hi && window.hi > lo;
              EXPECT_TRUE(!reaches || found.contains({o, o + 1}));
            }
            const auto covered = landings(spec, 0, ranges)[0];
            ASSERT_TRUE(covered);
            EXPECT_EQ(covered->lo, found.lo * stride - pad);
            EXPECT_EQ(covered->hi, (found.hi - 1) * stride - pad + size);
            EXPECT_LE(covered->lo, lo);
            EXPECT_LE(hi - covered->hi, std::max<int64_t>(0, stride - size));
            gaps += covered->hi < hi;
          }
        }
      }
    }
  }
  EXPECT_GT(gaps, 0);
  EXPECT_FALSE(has_landings(parse_spec("index i=4 input [4] [i] = #0[i]")));
}

TEST(Interval, WrongNumberOfRanges) {
  const Spec spec = parse_spec("index i=4 input [4] [i] = #0[i]");
  EXPECT_THROW(input_needs(spec, {}), UserError);
  EXPECT_THROW(output_region(spec, 0, {}), UserError);
  EXPECT_THROW(output_region(spec, 1, {{0, 4}}), UserError);
}

int64_t value_of(const Expr& expr, const std::vector<int64_t>& at) {
  if (expr.kind == ExprKind::kConst) return static_cast<int64_t>(expr.value);
  if (expr.kind == ExprKind::kIndex) return at[expr.index];
  const int64_t a = value_of(*expr.args[0], at);
  const int64_t b = value_of(*expr.args[1], at);
  if (expr.name == "add") return a + b;
  if (expr.name == "sub") return a - b;
  if (expr.name == "mul") return a * b;
  const int64_t q = a >= 0 ? a / b : -((-a + b - 1) / b);
  return expr.name == "floordiv" ? q : a - q * b;
}

TEST(Interval, NeverTooSmallAndExactWhenAffine) {
  std::mt19937 random(20260101);
  const auto draw = [&](int lo, int hi) {
    return std::uniform_int_distribution<int>(lo, hi)(random);
  };
  for (int round = 0; round < 2000; ++round) {
    bool affine = true;
    ExprPtr expr = make_const(draw(-3, 3));
    for (int term = 0; term < 3; ++term) {
      ExprPtr atom = make_index(draw(0, 1));
      if (draw(0, 3) == 0) {
        atom = make_call(draw(0, 1) ? "floordiv" : "mod", {atom, make_const(draw(1, 4))});
        affine = false;
      }
      expr = make_call(draw(0, 1) ? "add" : "sub",
                       {expr, make_call("mul", {atom, make_const(draw(1, 3))})});
    }
    Spec spec;
    spec.indices = {{"i", 8, false}, {"j", 6, false}};
    spec.input_shapes = {{5}};
    spec.outputs = {{{0, 1}, make_read(0, {expr}, 0.0)}};
    const int lo_i = draw(0, 7), lo_j = draw(0, 5);
    const IndexRanges ranges = {{lo_i, draw(lo_i + 1, 8)}, {lo_j, draw(lo_j + 1, 6)}};
    int64_t lo = INT64_MAX, hi = INT64_MIN;
    for (int64_t i = ranges[0].lo; i < ranges[0].hi; ++i) {
      for (int64_t j = ranges[1].lo; j < ranges[1].hi; ++j) {
        const int64_t at = value_of(*expr, {i, j});
        lo = std::min(lo, at);
        hi = std::max(hi, at + 1);
      }
    }
    const Interval found = input_needs(spec, ranges)[0].unclamped.dims[0];
    EXPECT_TRUE(found.contains({lo, hi})) << "round " << round << "\n" << print_spec(spec);
    if (!affine) continue;
    EXPECT_EQ(found, (Interval{lo, hi})) << "round " << round << "\n" << print_spec(spec);
  }
}

}  // namespace
}  // namespace smex::tdl
