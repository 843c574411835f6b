#include "partition/search/recursion/domains.h"

#include <gtest/gtest.h>

#include "../graphs.h"
#include "stages.h"

namespace smex {
namespace {

using test::all_cut;
using test::Stage;

/// x w for x of 8×6 and w of 6×4: the op's indices are 8, 4 and the sum's 6.
struct Product {
  Product() {
    x = b.input({8, 6});
    w = b.input({6, 4}, Role::kParameter);
    y = b.mm(x, w);
    b.output(y);
  }

  test::Builder b;
  ValueId x, w, y;
};

Domain cuts(const Stage& stage, const Domains& domains, ValueId value) {
  return domains.of_group(stage.merged.coarse.group_of[value]);
}

std::vector<Choices> choices(const Domains& domains, const Op& op) {
  std::vector<Choices> found;
  for (const Strategy& strategy : domains.of_op(op)) found.push_back(strategy.choices);
  return found;
}

TEST(Domains, CutDimensionsThatAreLongEnough) {
  const Product product;
  Stage two(product.b.graph, {2}, all_cut()), six(product.b.graph, {6}, all_cut());
  Stage many(product.b.graph, {100}, all_cut());
  EXPECT_EQ(cuts(two, two.domains(), product.x), (Domain{{0}, {1}}));
  EXPECT_EQ(cuts(six, six.domains(), product.w), (Domain{{0}})) << "4 columns are too few";
  EXPECT_EQ(cuts(many, many.domains(), product.w), (Domain{{kReplicate}})) << "nothing can be cut";
}

TEST(Domains, CutWhatTheOtherStepsHaveLeft) {
  const Product product;
  Stage stage(product.b.graph, {4, 2}, all_cut(), {/*first=*/1, /*count=*/1});
  EXPECT_EQ(cuts(stage, stage.domains(), product.w), (Domain{{0}, {1}}));
  stage.plan.values[product.w] = {1, kReplicate};
  EXPECT_EQ(cuts(stage, stage.domains(), product.w), (Domain{{0}})) << "4 columns are cut by 4";
}

TEST(Domains, AreProductsWhereStepsAreChosenTogether) {
  const Product product;
  Stage stage(product.b.graph, {3, 2}, all_cut(), {/*first=*/0, /*count=*/2});
  EXPECT_EQ(cuts(stage, stage.domains(), product.w), (Domain{{0, 0}, {0, 1}, {1, 0}}))
      << "6 rows are cut by 3 and 2, 4 columns by 3 or 2 only";
}

TEST(Domains, ReplicateSmallTensors) {
  const Product product;
  SearchOptions options = all_cut();
  options.replicate_bytes = 6 * 4 * 4;
  Stage stage(product.b.graph, {2}, options);
  EXPECT_EQ(cuts(stage, stage.domains(), product.w), (Domain{{0}, {1}, {kReplicate}}));
  EXPECT_EQ(cuts(stage, stage.domains(), product.x), (Domain{{0}, {1}})) << "8·6·4 bytes";
}

TEST(Domains, KeepPins) {
  const Product product;
  SearchOptions options = all_cut();
  options.pinned[product.w] = {1, kReplicate};
  Stage stage(product.b.graph, {2, 2}, options, {/*first=*/1, /*count=*/1});
  EXPECT_EQ(cuts(stage, stage.domains(), product.w), (Domain{{kReplicate}}));
  stage.steps = {/*first=*/0, /*count=*/2};
  EXPECT_EQ(cuts(stage, stage.domains(), product.w), (Domain{{1, kReplicate}}));
}

TEST(Domains, KeepToThePlannersRules) {
  const Product product;
  Stage rows(product.b.graph, {2}, all_cut(Planner::kAllRow));
  EXPECT_EQ(cuts(rows, rows.domains(), product.w), (Domain{{0}}));
  Stage batch(product.b.graph, {2}, all_cut(Planner::kDataParallel));
  EXPECT_EQ(cuts(batch, batch.domains(), product.w), (Domain{{kReplicate}})) << "a parameter";
  EXPECT_EQ(cuts(batch, batch.domains(), product.x), (Domain{{0}})) << "an input";
  EXPECT_EQ(cuts(batch, batch.domains(), product.y), (Domain{{0}, {1}, {kReplicate}}));
}

TEST(Domains, SplitAnOpAlongItsIndices) {
  const Product product;
  const Op& op = product.b.graph.op(0);
  Stage two(product.b.graph, {2}, all_cut()), six(product.b.graph, {6}, all_cut());
  EXPECT_EQ(choices(two.domains(), op), (std::vector<Choices>{{0}, {1}, {2}}));
  EXPECT_EQ(choices(six.domains(), op), (std::vector<Choices>{{0}, {2}})) << "not 4 by 6";
  Stage whole(product.b.graph, {2}, all_cut(Planner::kIcml18));
  EXPECT_EQ(choices(whole.domains(), op), (std::vector<Choices>{{0}, {1}})) << "no partial sums";
}

TEST(Domains, RepeatAnOpThatCostsLittleOrCannotBeSplit) {
  const Product product;
  const Op& op = product.b.graph.op(0);
  SearchOptions options = all_cut();
  options.replicate_bytes = 8 * 4 * 4;
  Stage small(product.b.graph, {2}, options), many(product.b.graph, {100}, all_cut());
  EXPECT_EQ(choices(small.domains(), op), (std::vector<Choices>{{0}, {1}, {2}, {kReplicate}}));
  EXPECT_EQ(choices(many.domains(), op), (std::vector<Choices>{{kReplicate}}));
}

TEST(Domains, HaveAddendsWhereSumsMayStayPending) {
  const test::Unrolled made = test::unrolled(/*steps=*/2, 4, 5, 6);
  SearchOptions options = all_cut();
  options.replicate_bytes = int64_t{1} << 40;
  Stage tofu(made.graph, {2}, options);
  const Domains domains = tofu.domains();
  EXPECT_EQ(cuts(tofu, domains, made.gradients[0]).back(), Choices{kPending});
  EXPECT_EQ(cuts(tofu, domains, made.weight).back(), Choices{kReplicate});
  const Op& sum = made.graph.op(made.graph.value(made.sums[1]).producer);
  const Strategy pending = domains.of_op(sum).back();
  EXPECT_EQ(pending.choices, Choices{kPending});
  EXPECT_EQ(pending.pending, std::vector<uint64_t>{0b11}) << "both of what is added";
  Stage cut(made.graph, {2}, all_cut());
  EXPECT_NE(cuts(cut, cut.domains(), made.gradients[0]).back(), Choices{kPending})
      << "as large as replicas";
}

}  // namespace
}  // namespace smex
