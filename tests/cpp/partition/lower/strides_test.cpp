#include "partition/lower/strides.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "../graphs.h"

namespace smex {
namespace {

/// Where the elements lie, the last dimension fastest.
std::vector<int64_t> offsets(const Shape& shape, const Strides& strides) {
  std::vector<int64_t> found{0};
  for (size_t d = 0; d < shape.size(); ++d) {
    std::vector<int64_t> more;
    for (int64_t base : found) {
      for (int64_t n = 0; n < shape[d]; ++n) more.push_back(base + n * strides[d]);
    }
    found = std::move(more);
  }
  return found;
}

Strides dense(const Shape& shape) {
  Strides strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

/// The only strides that can give these offsets, by the first step along each dimension.
Strides by_first_steps(const Shape& shape, const std::vector<int64_t>& places) {
  Strides strides = dense(shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1) strides[d] = places[strides[d]] - places[0];
  }
  return strides;
}

TEST(Strides, AReshapeIsAViewWhereStridesCanSayIt) {
  std::mt19937 random(1);
  const std::vector<Shape> shapes = {{2, 3, 4}, {6, 4},    {24},      {2, 12},      {4, 6},
                                     {1, 24},   {3, 8},    {8, 3, 1}, {2, 3, 2, 2}, {12, 2},
                                     {4, 3, 2}, {1, 6, 4}, {2, 2, 6}};
  int views = 0, copies = 0;
  for (int round = 0; round < 2000; ++round) {
    const Shape& from = shapes[random() % shapes.size()];
    const Shape& to = shapes[random() % shapes.size()];
    std::vector<size_t> order(from.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    Strides strides(from.size());
    int64_t step = 1 + static_cast<int64_t>(random() % 2);
    for (size_t d : order) {
      strides[d] = step;
      step *= from[d] + static_cast<int64_t>(random() % 8 == 0);
    }
    const auto places = offsets(from, strides);
    const bool possible = offsets(to, by_first_steps(to, places)) == places;
    const auto found = reshaped({from, strides}, to);
    EXPECT_EQ(found.has_value(), possible);
    if (found) EXPECT_EQ(offsets(to, found->empty() ? dense(to) : *found), places);
    (found ? views : copies) += 1;
  }
  EXPECT_GT(views, 100);
  EXPECT_GT(copies, 100);
}

TEST(Strides, OfWhatIsContiguousAndOfBoxes) {
  EXPECT_EQ(reshaped({{2, 3}, {}}, {6}), Strides{});
  EXPECT_EQ(of_box({{4, 6}, {}}, {2, 6}), Strides{}) << "whole rows";
  EXPECT_EQ(of_box({{4, 6}, {}}, {4, 3}), (Strides{6, 1}));
  EXPECT_EQ(of_box({{4, 6}, {1, 4}}, {1, 6}), (Strides{1, 4}));
}

TEST(Strides, FollowCallsToTheReshape) {
  test::Builder b;
  const ValueId x = b.input({4, 6});
  b.output(b.add(b.transpose(x), b.transpose(x)));
  Op transpose = b.graph.op(0), add = b.graph.ops().back();
  transpose.target = "aten::t";
  const Strides turned = made_by(transpose, {ValueRef{0}}, {{{4, 6}, {}}}, {6, 4}, 0).strides;
  EXPECT_EQ(turned, (Strides{1, 6}));
  const LocalTensor operand{{6, 4}, turned};
  EXPECT_EQ(made_by(add, {}, {operand, operand}, {6, 4}, 0).strides, turned);
  Op view = transpose;
  view.target = "aten::view";
  EXPECT_TRUE(made_by(view, {ValueRef{0}}, {operand}, {24}, 0).copies);
  EXPECT_FALSE(made_by(view, {ValueRef{0}}, {operand}, {6, 2, 2}, 0).copies);
  Op clone = transpose;
  clone.target = "aten::clone";
  EXPECT_EQ(made_by(clone, {ValueRef{0}, int64_t{0}}, {operand}, {6, 4}, 0).strides, Strides{});
  Op attention = view;
  attention.target = "smex::scaled_dot_product";
  attention.outputs = {1, 2};
  const LocalTensor query{{2, 3, 5, 4}, {}};
  EXPECT_EQ(made_by(attention, {}, {query}, {2, 3, 5, 4}, 0).strides, (Strides{60, 4, 12, 1}));
}

}  // namespace
}  // namespace smex
