#include "schedule/list_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "ir/error.h"

namespace smex::schedule {
namespace {

/// Tasks of one or two of a few resources, some of no seconds, that wait for up to three others.
TaskGraph random_graph(std::mt19937& random, Task tasks, Resource resources) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  TaskGraph graph(resources);
  for (Task task = 0; task < tasks; ++task) {
    std::vector<Resource> used;
    for (int i = below(5) == 0 ? 2 : below(12) == 0 ? 0 : 1; i > 0; --i) {
      used.push_back(below(resources));
    }
    std::vector<Task> after;
    for (int i = task == 0 ? 0 : below(4); i > 0; --i) after.push_back(below(task));
    graph.add(below(10) == 0 ? 0.0 : 1 + below(9), used, after);
  }
  return graph;
}

/// No task begins before what it waits for has ended, and no resource does two at a time.
void expect_valid(const TaskGraph& graph, const Schedule& schedule) {
  double last = 0;
  for (Task task = 0; task < graph.size(); ++task) {
    EXPECT_EQ(schedule.ends[task], schedule.begins[task] + graph.seconds(task));
    last = std::max(last, schedule.ends[task]);
    for (const Task earlier : graph.before(task)) {
      EXPECT_GE(schedule.begins[task], schedule.ends[earlier]);
    }
    for (Task other = 0; other < task; ++other) {
      const bool apart = schedule.ends[other] <= schedule.begins[task] ||
                         schedule.ends[task] <= schedule.begins[other];
      for (const Resource resource : graph.resources(task)) {
        const auto others = graph.resources(other);
        const bool shared = std::find(others.begin(), others.end(), resource) != others.end();
        EXPECT_TRUE(apart || !shared) << task << " and " << other << " on " << resource;
      }
    }
  }
  EXPECT_EQ(schedule.makespan, last);
}

/// The least makespan of all orders.
double optimum(const TaskGraph& graph) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<Task> order;
  std::vector<bool> taken(graph.size(), false);
  const auto extend = [&](const auto& self) -> void {
    if (order.size() == static_cast<size_t>(graph.size())) {
      best = std::min(best, in_order(graph, order).makespan);
      return;
    }
    for (Task task = 0; task < graph.size(); ++task) {
      const auto before = graph.before(task);
      const bool is_ready =
          std::all_of(before.begin(), before.end(), [&](Task earlier) { return taken[earlier]; });
      if (taken[task] || !is_ready) continue;
      taken[task] = true;
      order.push_back(task);
      self(self);
      order.pop_back();
      taken[task] = false;
    }
  };
  extend(extend);
  return best;
}

TEST(ListSchedule, RanksAreTheLongestWaysToTheEnd) {
  TaskGraph graph(1);
  const Task a = graph.add(1, {}, {});
  const Task after_a[] = {a};
  const Task b = graph.add(2, {}, after_a), c = graph.add(5, {}, after_a);
  const Task after_b[] = {b};
  const Task d = graph.add(4, {}, after_b);
  const auto ranks = upward_ranks(graph);
  EXPECT_EQ(ranks[d], 4);
  EXPECT_EQ(ranks[c], 5);
  EXPECT_EQ(ranks[b], 6);
  EXPECT_EQ(ranks[a], 7);
  EXPECT_EQ(least_makespan(graph), 7);
}

TEST(ListSchedule, ATransferGoesBesideWhatTheDeviceDoesNext) {
  // Device 0 makes what device 1 needs, over link 2, and has other work that nobody waits for.
  TaskGraph graph(3);
  const Resource device[] = {0}, other[] = {1}, link[] = {2};
  graph.add(3, device, {});  // added first, so that turns of waiting take it first
  const Task made = graph.add(1, device, {});
  const Task after_made[] = {made};
  const Task sent = graph.add(2, link, after_made);
  const Task after_sent[] = {sent};
  graph.add(4, other, after_sent);
  EXPECT_EQ(first_come(graph).makespan, 10);
  const Schedule schedule = by_priority(graph, upward_ranks(graph));
  EXPECT_EQ(schedule.makespan, 7);
  EXPECT_EQ(schedule.critical_path(), (std::vector<Task>{1, 2, 3}));
  EXPECT_EQ(schedule.order(), (std::vector<Task>{1, 2, 0, 3}));
}

TEST(ListSchedule, TasksOfSeveralResourcesNeedAllAtOnce) {
  TaskGraph graph(2);
  const Resource both[] = {0, 1}, first[] = {0}, second[] = {1};
  graph.add(2, first, {});
  graph.add(3, both, {});
  graph.add(1, second, {});
  const double priorities[] = {3, 2, 1};
  const Schedule schedule = by_priority(graph, priorities);
  EXPECT_EQ(schedule.begins, (std::vector<double>{0, 2, 0}));
  EXPECT_EQ(schedule.makespan, 5);
}

TEST(ListSchedule, RandomGraphsAreWithinTheBoundOfTheOptimum) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    const Resource resources = 1 + static_cast<Resource>(random() % 3);
    const TaskGraph graph = random_graph(random, 1 + static_cast<Task>(random() % 7), resources);
    const double best = optimum(graph);
    EXPECT_GE(best, least_makespan(graph));
    const auto used = static_cast<double>(std::max<int64_t>(1, graph.num_used_resources()));
    std::vector<double> any(graph.size());
    for (double& priority : any) priority = random() % 5;
    for (const Schedule& schedule : {by_priority(graph, upward_ranks(graph)), first_come(graph),
                                     by_priority(graph, any), shortest_of_lists(graph)}) {
      expect_valid(graph, schedule);
      EXPECT_GE(schedule.makespan, best);
      // Where tasks of no resources run there is one more thing that does not stand still.
      EXPECT_LE(schedule.makespan, (used + 1) * best);
    }
  }
}

TEST(ListSchedule, AnOrderRunsToTheScheduleThatItIsOf) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 100; ++trial) {
    const TaskGraph graph = random_graph(random, 200, 5);
    for (const Schedule& schedule : {by_priority(graph, upward_ranks(graph)), first_come(graph)}) {
      expect_valid(graph, schedule);
      const Schedule again = in_order(graph, schedule.order());
      EXPECT_EQ(again.begins, schedule.begins);
      EXPECT_EQ(again.makespan, schedule.makespan);
      const std::vector<Task> path = schedule.critical_path();
      double end = 0;
      for (const Task task : path) {
        EXPECT_EQ(schedule.begins[task], end);
        end = schedule.ends[task];
      }
      EXPECT_EQ(end, schedule.makespan);
    }
  }
}

TEST(ListSchedule, NothingToDo) {
  const TaskGraph graph(0);
  EXPECT_EQ(by_priority(graph, {}).makespan, 0);
  EXPECT_TRUE(first_come(graph).critical_path().empty());
  EXPECT_EQ(in_order(graph, {}).makespan, 0);
}

TEST(ListSchedule, BadInputIsNamedAndChangesNothing) {
  EXPECT_THROW(TaskGraph(-1), UserError);
  TaskGraph graph(2);
  const Resource none[] = {2}, one[] = {1};
  const Task later[] = {0};
  EXPECT_THROW(graph.add(1, none, {}), UserError);
  EXPECT_THROW(graph.add(1, one, later), UserError);
  EXPECT_THROW(graph.add(-1, one, {}), UserError);
  EXPECT_THROW(graph.add(NAN, one, {}), UserError);
  EXPECT_EQ(graph.size(), 0);
  graph.add(1, one, {});
  graph.add(1, one, later);
  const double few[] = {1}, not_a_number[] = {1, NAN};
  EXPECT_THROW(by_priority(graph, few), UserError);
  EXPECT_THROW(by_priority(graph, not_a_number), UserError);
  const Task twice[] = {0, 0}, backwards[] = {1, 0}, missing[] = {0};
  EXPECT_THROW(in_order(graph, twice), UserError);
  EXPECT_THROW(in_order(graph, backwards), UserError);
  EXPECT_THROW(in_order(graph, missing), UserError);
}

}  // namespace
}  // namespace smex::schedule
