#include "vertex/schedule.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <utility>

#include "samples.h"

namespace smex::vertex {
namespace {

/// Compares a schedule with what schedule.h says of it, vertex by vertex.
void expect_as_defined(const InputGraphs& graphs, const std::vector<int64_t>& slots,
                       const Schedule& schedule) {
  const int64_t vertices = graphs.num_vertices();
  std::vector<int64_t> task_of_row(vertices, -1), next = schedule.type_rows;
  for (size_t t = 0; t < schedule.tasks.size(); ++t) {
    const Task& task = schedule.tasks[t];
    ASSERT_GT(task.size(), 0);
    EXPECT_EQ(task.begin, next[task.type]);  // type after type, task after task
    next[task.type] = task.end;
    for (int64_t row = task.begin; row < task.end; ++row) task_of_row[row] = t;
  }
  for (size_t type = 0; type + 1 < schedule.type_rows.size(); ++type)
    EXPECT_EQ(next[type], schedule.type_rows[type + 1]);
  std::vector<bool> has_parent(vertices);
  for (int64_t row = 0; row < vertices; ++row) {
    const int64_t vertex = schedule.vertices[row];
    const Task& task = schedule.tasks[task_of_row[row]];
    EXPECT_EQ(schedule.rows[vertex], row);
    EXPECT_EQ(graphs.type(vertex), task.type);
    const auto children = graphs.children_of(vertex);
    ASSERT_EQ(schedule.edge_offsets[row + 1] - schedule.edge_offsets[row],
              static_cast<int64_t>(children.size()));
    EXPECT_EQ(schedule.counts[row], static_cast<int64_t>(children.size()));
    for (size_t i = 0; i < children.size(); ++i) {
      const int64_t child = schedule.rows[children[i]];
      const int64_t edge = schedule.edge_offsets[row] + static_cast<int64_t>(i);
      EXPECT_EQ(schedule.parents[edge], row - schedule.type_rows[task.type]);
      EXPECT_EQ(schedule.task_parents[edge], row - task.begin);
      EXPECT_EQ(schedule.edge_rows[schedule.edge_offsets[row] + i], child);
      EXPECT_LT(task_of_row[child], task_of_row[row]);
      has_parent[child] = true;
    }
    for (int64_t slot = 0; slot < task.slots; ++slot) {
      const int64_t found =
          schedule.slot_rows[task.slot_begin + slot * task.size() + row - task.begin];
      const bool is_there = slot < static_cast<int64_t>(children.size());
      EXPECT_EQ(found, is_there ? schedule.rows[children[slot]] : vertices);
    }
  }
  const std::vector<int64_t> edge_begin = edge_begins(schedule), slot_begin = slot_begins(schedule);
  ASSERT_EQ(edge_begin.size(), schedule.edge_rows.size());
  ASSERT_EQ(slot_begin.size(), schedule.slot_rows.size());
  size_t slot_number = 0;
  for (const Task& task : schedule.tasks) {
    EXPECT_EQ(task.edge_begin, schedule.edge_offsets[task.begin]);
    EXPECT_EQ(task.edge_end, schedule.edge_offsets[task.end]);
    int64_t most = 0;
    for (int64_t row = task.begin; row < task.end; ++row)
      most = std::max(most, graphs.num_children(schedule.vertices[row]));
    for (int64_t edge = task.edge_begin; edge < task.edge_end; ++edge)
      EXPECT_EQ(edge_begin[edge], task.edge_begin);
    EXPECT_EQ(task.slots, std::min(most, slots[task.type]));
    for (int64_t slot = 0; slot < task.slots; ++slot, ++slot_number) {
      const int64_t* const rows = schedule.slot_rows.data() + task.slot_begin + slot * task.size();
      bool is_contiguous = true;
      for (int64_t i = 0; i < task.size(); ++i) {
        const int64_t first = task.slot_begin + slot * task.size();
        EXPECT_EQ(slot_begin[first + i], first);
      }
      for (int64_t i = 0; i < task.size(); ++i)
        is_contiguous = is_contiguous && rows[i] == rows[0] + i && rows[i] < vertices;
      EXPECT_EQ(schedule.slot_first[slot_number], is_contiguous ? rows[0] : -1);
    }
  }
  EXPECT_EQ(schedule.slot_first.size(), slot_number);
  std::vector<int64_t> roots;
  for (int64_t v = 0; v < vertices; ++v) {
    if (!has_parent[schedule.rows[v]]) roots.push_back(schedule.rows[v]);
  }
  EXPECT_EQ(schedule.roots, roots);
  const std::vector<size_t> begins = stages(schedule);
  ASSERT_FALSE(begins.empty());
  EXPECT_EQ(begins.back(), schedule.tasks.size());
  for (size_t stage = 0; stage + 1 < begins.size(); ++stage) {
    std::set<int64_t> types;
    bool next_waits = begins[stage + 1] == schedule.tasks.size();
    for (size_t t = begins[stage]; t <= begins[stage + 1] && t < schedule.tasks.size(); ++t) {
      const Task& task = schedule.tasks[t];
      bool waits = !types.insert(task.type).second;
      for (int64_t edge = task.edge_begin; edge < task.edge_end; ++edge)
        waits =
            waits || task_of_row[schedule.edge_rows[edge]] >= static_cast<int64_t>(begins[stage]);
      if (t < begins[stage + 1])
        EXPECT_FALSE(waits) << "task " << t;
      else
        next_waits = waits;  // else it would be of this stage
    }
    EXPECT_TRUE(next_waits) << "stage " << stage;
  }
}

TEST(Schedule, RandomGraphsAreScheduledAsDefined) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<Children> samples;
    int64_t vertices = 0;
    const size_t num_samples = random() % 6;
    for (size_t i = 0; i < num_samples; ++i) {
      samples.push_back(random_dag(random() % 40, random() % 5, random));
      vertices += static_cast<int64_t>(samples.back().size());
    }
    const int64_t num_types = 1 + random() % 3;
    std::vector<int64_t> types(vertices), slots(num_types);
    for (int64_t& type : types) type = random() % num_types;
    for (int64_t& count : slots) count = random() % 5;
    const Batch batch(samples, types);
    for (const Policy policy : {Policy::kDepth, Policy::kReadiness})
      expect_as_defined(batch.graphs(), slots, schedule(batch.graphs(), slots, policy));
  }
}

TEST(Schedule, DepthMakesATaskForEachLevelAndType) {
  std::mt19937 random(7);
  std::vector<int64_t> types(60);
  for (int64_t& type : types) type = random() % 2;
  const Batch batch({random_dag(30, 3, random), random_dag(30, 2, random)}, types);
  const auto level = levels(batch.graphs());
  std::set<std::pair<int64_t, int64_t>> kinds;
  for (size_t v = 0; v < level.size(); ++v) kinds.insert({level[v], types[v]});
  const std::vector<int64_t> slots = {3, 3};
  const Schedule found = schedule(batch.graphs(), slots, Policy::kDepth);
  EXPECT_EQ(found.tasks.size(), kinds.size());
}

TEST(Schedule, ReadinessWaitsForMoreOfAType) {
  // Chains of type 0 with a head of type 1, at different lengths: by depth the heads are apart.
  std::vector<Children> samples;
  std::vector<int64_t> types;
  for (const int64_t length : {2, 3, 4, 5}) {
    samples.push_back(chain(length));
    types.insert(types.end(), length - 1, 0);
    types.push_back(1);
  }
  const Batch batch(samples, types);
  const std::vector<int64_t> slots = {1, 1};
  EXPECT_EQ(schedule(batch.graphs(), slots, Policy::kDepth).tasks.size(), 4u + 4u);
  EXPECT_EQ(schedule(batch.graphs(), slots, Policy::kReadiness).tasks.size(), 4u + 1u);
}

TEST(Schedule, BothDirectionsOfAChainAreStages) {
  const Batch batch({chain(4), chain(4)}, {0, 0, 0, 0, 1, 1, 1, 1});
  const Schedule found = schedule(batch.graphs(), std::vector<int64_t>{1, 1}, Policy::kReadiness);
  EXPECT_EQ(stages(found), (std::vector<size_t>{0, 2, 4, 6, 8}));
}

TEST(Schedule, ChildrenOfChainsAndCompleteTreesAreContiguous) {
  const std::vector<Children> chains = {chain(3), chain(7), chain(1), chain(5), chain(7)};
  for (const auto& [samples, slots] :
       {std::pair{chains, 1}, std::pair{std::vector(3, complete_tree(16)), 2}}) {
    const Batch batch(samples);
    const Schedule found =
        schedule(batch.graphs(), std::vector<int64_t>{slots}, Policy::kReadiness);
    EXPECT_FALSE(found.slot_first.empty());
    for (const int64_t first : found.slot_first) EXPECT_GE(first, 0);
  }
}

TEST(Schedule, NothingMakesNoTasks) {
  for (const auto& samples : {std::vector<Children>{}, std::vector<Children>{{}, {}}}) {
    const Batch batch(samples);
    const Schedule found = schedule(batch.graphs(), std::vector<int64_t>{2}, Policy::kReadiness);
    EXPECT_TRUE(found.tasks.empty());
    EXPECT_EQ(found.type_rows, (std::vector<int64_t>{0, 0}));
    EXPECT_EQ(found.edge_offsets, (std::vector<int64_t>{0}));
  }
}

TEST(Schedule, AStarsChildrenAreNotListedByPosition) {
  Children star(1001);
  for (int64_t v = 1; v <= 1000; ++v) star[0].push_back(v);
  const Batch batch({star});
  const Schedule found = schedule(batch.graphs(), std::vector<int64_t>{0}, Policy::kDepth);
  EXPECT_TRUE(found.slot_rows.empty());
  EXPECT_EQ(found.edge_rows.size(), 1000u);
}

}  // namespace
}  // namespace smex::vertex
