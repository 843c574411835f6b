#include "smex/schedule.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace smex {
namespace {

at::Tensor numbers(const std::vector<int64_t>& list) { return at::tensor(list, at::kLong); }

std::string message_of(const InputGraphs& graphs) {
  try {
    schedule_vertices(graphs, {2});
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(Schedule, SamplesRunTogether) {
  InputGraphs graphs;
  graphs.add({{}, {}, {0, 1}});
  graphs.add({{}});
  EXPECT_EQ(graphs.num_vertices(), 4);
  const VertexSchedule schedule = schedule_vertices(graphs, {2});
  ASSERT_EQ(schedule.tasks.size(), 2);
  const VertexTask& leaves = schedule.tasks[0];
  const VertexTask& top = schedule.tasks[1];
  EXPECT_EQ(leaves.size(), 3);
  EXPECT_EQ(top.size(), 1);
  EXPECT_FALSE(schedule.children_at(leaves, 0).defined());
  EXPECT_TRUE(schedule.children_at(top, 0).equal(schedule.rows.slice(0, 0, 1)));
  EXPECT_TRUE(schedule.children_at(top, 1).equal(schedule.rows.slice(0, 1, 2)));
  EXPECT_TRUE(schedule.vertices.index_select(0, schedule.roots).equal(numbers({2, 3})));
}

TEST(Schedule, WhereThereIsNoChildIsTheNumberOfVertices) {
  InputGraphs graphs;
  graphs.add({{}, {0}, {0, 1}});
  graphs.add({{}, {}, {0, 1}});
  const VertexSchedule schedule = schedule_vertices(graphs, {2});
  ASSERT_EQ(schedule.tasks.size(), 3);
  const at::Tensor second = schedule.children_at(schedule.tasks[1], 1);
  EXPECT_EQ(second.eq(6).sum().item<int64_t>(), 1);
}

TEST(Schedule, TypesHaveTasksOfTheirOwn) {
  InputGraphs graphs;
  graphs.add({{}, {}, {0, 1}}, {0, 1, 1});
  const VertexSchedule schedule = schedule_vertices(graphs, {0, 2});
  EXPECT_EQ(schedule.tasks.size(), 3);
}

TEST(Schedule, NothingIsNoTask) { EXPECT_TRUE(schedule_vertices({}, {2}).tasks.empty()); }

TEST(Schedule, ErrorsNameSampleAndVertex) {
  InputGraphs graphs;
  graphs.add({{}});
  graphs.add({{1}, {0}});
  EXPECT_NE(message_of(graphs).find("cycle"), std::string::npos) << message_of(graphs);
  InputGraphs absent;
  absent.add({{7}});
  EXPECT_NE(message_of(absent).find("sample 0"), std::string::npos) << message_of(absent);
}

}  // namespace
}  // namespace smex
