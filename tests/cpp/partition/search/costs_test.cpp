#include "partition/search/recursion/costs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "../graphs.h"
#include "partition/search/recursion/op_kinds.h"
#include "stages.h"

namespace smex {
namespace {

using test::all_cut;
using test::Stage;

/// x w of float32 for x of 8×6 and w of 6×4, on two workers.
struct Product {
  Product() {
    const ValueId x = b.input({8, 6}), w = b.input({6, 4}, Role::kParameter);
    b.output(b.mm(x, w));
  }

  const Op& op() const { return b.graph.op(0); }

  test::Builder b;
};

constexpr double kX = 8 * 6 * 4, kW = 6 * 4 * 4, kY = 8 * 4 * 4;  // bytes

struct Fixture {
  explicit Fixture(const SearchOptions& options = all_cut(), const Machine* machine = nullptr)
      : stage(product.b.graph, {2}, options),
        domains(stage.domains()),
        costs(stage.merged, machine, 2, stage.grids, stage.plan, stage.steps, domains),
        x(stage.merged.ops[0].operands[0]),
        w(stage.merged.ops[0].operands[1]),
        y(stage.merged.ops[0].operands[2]) {}

  OpGrid split(int index) { return stage.grids.make(product.op(), {index}, {2}); }
  double fetch(const Operand& input, int index, int cut) {
    return costs.fetch_bytes(input, split(index), {cut}, {2});
  }
  std::optional<double> store(int index, int cut) {
    return costs.store_bytes(y, split(index), {cut}, {2});
  }

  Product product;
  Stage stage;
  Domains domains;
  Costs costs;
  Operand x, w, y;
};

// The indices of the product are the rows of x, the columns of w and those that are summed over.
constexpr int kRows = 0, kColumns = 1, kSummed = 2;

TEST(Costs, FetchWhatAWorkerDoesNotHold) {
  Fixture f;
  EXPECT_EQ(f.fetch(f.x, kRows, /*cut=*/0), 0) << "each worker has its rows";
  EXPECT_EQ(f.fetch(f.x, kRows, /*cut=*/1), kX / 2) << "of its rows each lacks half the columns";
  EXPECT_EQ(f.fetch(f.x, kColumns, /*cut=*/0), kX) << "both lack half of it";
  EXPECT_EQ(f.fetch(f.x, kColumns, kReplicate), 0);
  EXPECT_EQ(f.fetch(f.w, kRows, /*cut=*/1), kW) << "both need all of it";
  EXPECT_EQ(f.fetch(f.w, kSummed, /*cut=*/0), 0);
}

TEST(Costs, StoreWhatIsMadeElsewhere) {
  Fixture f;
  EXPECT_EQ(f.store(kRows, /*cut=*/0), 0);
  EXPECT_EQ(f.store(kRows, /*cut=*/1), kY / 2);
  EXPECT_EQ(f.store(kSummed, /*cut=*/0), kY) << "half of both partial results";
  EXPECT_EQ(f.store(kSummed, kPending), 0) << "each keeps its addend";
  EXPECT_EQ(f.store(kRows, kPending), std::nullopt) << "nobody makes addends";
}

TEST(Costs, OfAllCutsAreThoseOfTheCheapestStrategy) {
  Fixture f;
  const OpCosts costs = f.costs.of(f.stage.merged.ops[0]);
  ASSERT_EQ(costs.strategies.size(), 3);
  ASSERT_EQ(costs.cost.size(), 8) << "each tensor along either dimension";
  const auto at = [&](int x, int w, int y) {
    const int entry = 4 * x + 2 * w + y;
    return std::make_pair(costs.cost[entry], costs.strategies[costs.best[entry]].choices[0]);
  };
  EXPECT_EQ(at(0, 0, 0), std::make_pair(kW, kRows));
  EXPECT_EQ(at(0, 1, 0), std::make_pair(kW, kRows));
  EXPECT_EQ(at(1, 0, 0), std::make_pair(kY, kSummed));
  EXPECT_EQ(at(1, 1, 1), std::make_pair(kY + kW / 2, kSummed));
}

TEST(Costs, AreSecondsOnAMachine) {
  SearchOptions options = all_cut();
  const Machine machine{{{{4, 10}}, 1e9, 0}, {{/*latency=*/1, /*bandwidth=*/8}}};
  Fixture f(options, &machine);
  const double whole = 2 * 8 * 4 * 6 / 10.0;
  EXPECT_DOUBLE_EQ(f.costs.compute_seconds(f.product.op(), f.split(kRows)), whole / 2);
  const OpCosts costs = f.costs.of(f.stage.merged.ops[0]);
  // All along dimension 0: the weight is fetched by both workers, each waits for a message.
  EXPECT_DOUBLE_EQ(costs.cost[0], whole / 2 + 1 + kW / 2 / 8);
}

TEST(OpKinds, AreEqualForOpsThatCostTheSame) {
  test::Builder b;
  const ValueId x = b.input({6, 6}), w = b.input({6, 6}, Role::kParameter);
  const ValueId first = b.mm(x, w);
  const ValueId second = b.mm(first, b.input({6, 6}, Role::kParameter));
  b.output(b.mm(second, second));
  Stage stage(b.graph, {2, 2}, all_cut(), {/*first=*/1, /*count=*/1});
  OpKinds kinds(stage.merged);
  const auto numbers = [&] {
    const Domains domains = stage.domains();
    kinds.begin(stage.plan, stage.steps, domains);
    std::vector<int> all;
    for (size_t n = 0; n < stage.merged.ops.size(); ++n) all.push_back(kinds.of(n));
    return all;
  };
  const std::vector<int> before = numbers();
  ASSERT_EQ(before.size(), 3);
  EXPECT_EQ(before[0], before[1]) << "equal layers";
  EXPECT_NE(before[1], before[2]) << "a square has one operand";
  EXPECT_EQ(numbers(), before);
  stage.plan.values[w] = {0, kReplicate};
  const std::vector<int> cut = numbers();
  EXPECT_NE(cut[0], before[0]) << "the weight is cut already";
  EXPECT_EQ(cut[1], before[1]);
}

}  // namespace
}  // namespace smex
