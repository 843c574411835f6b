#include "partition/plan/pending.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "../graphs.h"
#include "partition/lower/lower.h"
#include "partition/plan/grid.h"
#include "partition/price/price.h"
#include "partition/search/search.h"

namespace smex {
namespace {

SearchOptions by(Planner planner) {
  SearchOptions options;
  options.planner = planner;
  options.replicate_bytes = planner == Planner::kTofu ? int64_t{1} << 40 : 0;
  return options;
}

TEST(Pending, AreTheGradientsOfAWeightThatIsUsedAgain) {
  const test::Unrolled made = test::unrolled(3, 4, 5, 6);
  const std::vector<bool> may = may_stay_pending(made.graph);
  for (ValueId id : made.gradients) EXPECT_TRUE(may[id]);
  EXPECT_TRUE(may[made.sums[1]]);
  EXPECT_FALSE(may[made.sums[2]]);  // leaves the graph
  EXPECT_EQ(std::count(may.begin(), may.end(), true), 4);
}

TEST(Pending, GainsWhereSeveralAreAddedOrASmallerOneIsMade) {
  test::Builder b;
  const ValueId x = b.input({4, 6}), w = b.input({6, 5}), v = b.input({5, 2});
  const ValueId wide = b.mm(x, w), narrow = b.mm(wide, v);
  b.output(narrow);
  const ValueId alone = b.mm(x, w);
  b.output(b.transpose(alone));
  const std::vector<bool> may = may_stay_pending(b.graph);
  EXPECT_TRUE(may[wide]);
  EXPECT_FALSE(may[narrow]);
  EXPECT_FALSE(may[alone]);
}

TEST(Pending, ReduceOnceWhatAllStepsAdd) {
  constexpr int kSteps = 5, kWorkers = 4;
  const test::Unrolled made = test::unrolled(kSteps, 8, 5, 6);
  const Plan plan = search(made.graph, {kWorkers}, by(Planner::kDataParallel));
  for (ValueId id : made.gradients) EXPECT_EQ(plan.values[id], Choices{kPending});
  EXPECT_EQ(plan.values[made.weight], Choices{kReplicate});
  EXPECT_EQ(plan.values[made.sums.back()], Choices{kReplicate});
  // Reduce-scatter and all-gather of one gradient.
  EXPECT_EQ(plan.step_bytes[0], 2 * (kWorkers - 1) * 5 * 6 * 4);
  EXPECT_EQ(plan_bytes(made.graph, plan), plan.step_bytes[0]);
  const Program program = lower(made.graph, plan);
  EXPECT_EQ(moved_bytes(program, true, true), plan.step_bytes[0]);

  const Plan sharded = search(made.graph, {kWorkers}, by(Planner::kFsdp));
  const int64_t scatter = (kWorkers - 1) * 5 * 6 * 4, gathers = kSteps * scatter;
  EXPECT_EQ(sharded.step_bytes[0], scatter + gathers);
}

TEST(Pending, CountAlikeWorkerByWorkerAndByDimensions) {
  for (const Mesh& mesh : {Mesh{2}, Mesh{2, 2}, Mesh{3, 2}}) {
    const test::Unrolled made = test::unrolled(3, 12, 7, 9);
    Plan plan = search(made.graph, mesh, by(Planner::kDataParallel));
    EXPECT_EQ(plan_bytes(made.graph, plan),
              std::accumulate(plan.step_bytes.begin(), plan.step_bytes.end(), int64_t{0}));
    // One step leaves sums pending, the other cuts them.
    for (size_t s = 0; mesh.size() > 1 && s < mesh.size(); ++s) {
      Plan mixed = plan;
      for (const Op& op : made.graph.ops()) {
        const bool sums = op.target == "add", product = op.target == "mm" && op.backward;
        if (sums) mixed.ops[op.id][s] = 0;
        if (product) mixed.ops[op.id][s] = 0;
        if (sums || product) mixed.values[op.outputs[0]][s] = 0;
      }
      mixed.values[made.weight][s] = 0;
      price(made.graph, nullptr, mixed);
      EXPECT_EQ(plan_bytes(made.graph, mixed),
                std::accumulate(mixed.step_bytes.begin(), mixed.step_bytes.end(), int64_t{0}));
      EXPECT_EQ(moved_bytes(lower(made.graph, mixed), true, true), plan_bytes(made.graph, mixed));
    }
  }
}

TEST(Pending, NeedAnOpThatMakesAddends) {
  const test::Unrolled made = test::unrolled(2, 4, 5, 6);
  Plan plan = search(made.graph, {2}, by(Planner::kDataParallel));
  const OpId product = made.graph.value(made.gradients[0]).producer;
  plan.ops[product] = {0};  // makes rows, where addends are kept
  EXPECT_ANY_THROW(plan_bytes(made.graph, plan));
}

}  // namespace
}  // namespace smex
