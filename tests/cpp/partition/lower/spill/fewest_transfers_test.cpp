#include "partition/lower/spill/fewest_transfers.h"

#include <gtest/gtest.h>

#include <limits>

#include "partition/lower/spill/bound.h"
#include "problems.h"

namespace smex {
namespace {

/// The fewest bytes, by trying all sets that may leave before each step.
int64_t brute_force(const SpillProblem& problem, const Residence& residence, int step) {
  if (step == problem.num_steps) return residence.to_host + residence.to_device;
  int64_t fewest = std::numeric_limits<int64_t>::max();
  const std::vector<int> there = residence.there();
  for (uint32_t set = 0; set < 1U << there.size(); ++set) {
    Residence next = residence;
    for (size_t n = 0; n < there.size(); ++n) {
      if (set >> n & 1) next.drop(there[n]);
    }
    next.enter(step);
    if (next.held() > problem.capacity) continue;
    next.leave(step);
    fewest = std::min(fewest, brute_force(problem, next, step + 1));
  }
  return fewest;
}

TEST(FewestTransfers, IsTheLeastOfAllSchedules) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const SpillProblem problem = test::random_problem(random, 6, round % 2 ? 1 : 7);
    const SpillSchedule found = fewest_transfers(problem);
    EXPECT_EQ(found.bytes(), brute_force(problem, Residence(problem), 0)) << round;
    EXPECT_EQ(found.least, found.bytes()) << round;
  }
}

TEST(FewestTransfers, IsNeverWorseThanOthersHoweverFewStates) {
  std::mt19937 random(8);
  for (int round = 0; round < 60; ++round) {
    const SpillProblem problem = test::random_problem(random, 60, 12);
    SpillLimits limits;
    limits.states = 1 + round % 4;
    limits.choices = 1 + round % 3;
    limits.work = 1;
    limits.small_part = round % 2 ? 4 : 1024;
    const SpillSchedule few = fewest_transfers(problem, limits), many = fewest_transfers(problem);
    for (const SpillPolicy policy : {SpillPolicy::kLru, SpillPolicy::kBelady, SpillPolicy::kNone}) {
      EXPECT_LE(few.bytes(), follow_policy(problem, policy).bytes()) << round;
    }
    EXPECT_LE(few.least, many.bytes()) << round;
    EXPECT_LE(many.least, few.bytes()) << round;
    EXPECT_LE(many.least, many.bytes()) << round;
  }
}

TEST(TransferBound, IsBelowAllSchedules) {
  std::mt19937 random(9);
  for (int round = 0; round < 100; ++round) {
    const SpillProblem problem = test::random_problem(random, 20, 9);
    const SpillSchedule found = fewest_transfers(problem);
    const double bound = TransferBound(problem, found.bytes()).bytes();
    EXPECT_LE(bound, static_cast<double>(found.bytes()) + 1e-6) << round;
    EXPECT_GE(bound, 0) << round;
  }
}

TEST(FewestTransfers, HasNothingToDoInAnEmptyList) {
  EXPECT_EQ(fewest_transfers({0, 0, {}}).bytes(), 0);
  EXPECT_EQ(fewest_transfers({1, 5, {{5, {0}, true, false}}}).bytes(), 5);
}

}  // namespace
}  // namespace smex
