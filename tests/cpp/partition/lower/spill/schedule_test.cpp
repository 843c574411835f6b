#include "partition/lower/spill/schedule.h"

#include <gtest/gtest.h>

#include "ir/error.h"
#include "problems.h"

namespace smex {
namespace {

/// Two inputs of 4 and 2 bytes, and a result of 3 bytes of each step that the last one reads.
SpillProblem two_inputs(int64_t capacity) {
  return {3,
          capacity,
          {{4, {0, 2}, true, false},
           {2, {1, 2}, true, false},
           {3, {0, 1}, false, false},
           {1, {1, 2}, false, false},
           {1, {2}, false, true}}};
}

TEST(Schedule, NothingLeavesWhereAllFits) {
  const SpillProblem problem = two_inputs(100);
  for (const SpillPolicy policy : {SpillPolicy::kLru, SpillPolicy::kBelady}) {
    const SpillSchedule schedule = follow_policy(problem, policy);
    EXPECT_EQ(schedule.to_device, 4 + 2);
    EXPECT_EQ(schedule.to_host, 1);  // what is kept
  }
}

TEST(Schedule, AllLeaveAfterEachUse) {
  const SpillSchedule schedule = follow_policy(two_inputs(100), SpillPolicy::kNone);
  EXPECT_EQ(schedule.to_device, 4 + (2 + 3) + (4 + 2 + 1));
  EXPECT_EQ(schedule.to_host, 3 + 1 + 1);
}

TEST(Schedule, WhatHasACopyLeavesForNothing) {
  const SpillSchedule schedule = follow_policy(two_inputs(8), SpillPolicy::kBelady);
  EXPECT_EQ(schedule.dropped, (std::vector<std::vector<int>>{{}, {0}, {}}));
  EXPECT_EQ(schedule.to_device, 4 + 2 + 4);
  EXPECT_EQ(schedule.to_host, 1);
}

TEST(Schedule, LruTakesWhatWasUsedTheLongestAgoAndBeladyWhatIsUsedTheLatest) {
  // Blocks 0 and 1 are there when step 2 needs room: 0 was used before 1, and is used again first.
  const SpillProblem problem{
      5, 2, {{1, {0, 3}, true, false}, {1, {1, 4}, true, false}, {1, {2}, false, false}}};
  EXPECT_EQ(follow_policy(problem, SpillPolicy::kLru).dropped[2], std::vector<int>{0});
  EXPECT_EQ(follow_policy(problem, SpillPolicy::kBelady).dropped[2], std::vector<int>{1});
}

TEST(Schedule, EmptyListsMoveNothing) {
  const SpillProblem problem{0, 0, {{5, {}, true, false}}};
  EXPECT_EQ(follow_policy(problem, SpillPolicy::kLru).bytes(), 0);
}

TEST(Schedule, RefusesWhatDoesNotFit) {
  EXPECT_THROW(check(two_inputs(6)), UserError);  // step 2 uses 8
  EXPECT_THROW(check({1, 9, {{1, {0, 0}, true, false}}}), UserError);
  EXPECT_THROW(check({1, 9, {{1, {1}, true, false}}}), UserError);
  EXPECT_THROW(check({1, 9, {{1, {}, false, false}}}), UserError);
  EXPECT_THROW(check({1, 9, {{-1, {0}, true, false}}}), UserError);
  EXPECT_THROW(spill_policy("fifo"), UserError);
}

TEST(Schedule, CountsWhatItMovesAndRefusesToExceedTheCapacity) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const SpillProblem problem = test::random_problem(random, 12, 9);
    SpillSchedule schedule = follow_policy(problem, SpillPolicy::kLru);
    const int64_t bytes = schedule.bytes();
    count_transfers(problem, schedule);
    EXPECT_EQ(schedule.bytes(), bytes) << round;
    for (auto& dropped : schedule.dropped) {
      if (dropped.empty()) continue;
      dropped.clear();
      EXPECT_THROW(count_transfers(problem, schedule), InternalError) << round;
      break;
    }
  }
}

}  // namespace
}  // namespace smex
