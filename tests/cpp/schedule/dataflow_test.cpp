#include "schedule/dataflow.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/error.h"

namespace smex::schedule {
namespace {

/// Two chains of three operators that meet in one.
Dataflow two_chains(double transfer) {
  Dataflow graph;
  graph.devices = 2;
  graph.compute = {1, 2, 3, 4, 5, 6, 7};
  graph.transfer.assign(7, transfer);
  graph.edges = {{0, 1}, {1, 2}, {3, 4}, {4, 5}, {2, 6}, {5, 6}};
  return graph;
}

TEST(Dataflow, DevicesWorkBesideEachOther) {
  const Dataflow graph = two_chains(10);
  DataflowRun run(graph);
  EXPECT_EQ(run.makespan(std::vector<int32_t>(7, 0)), 28);
  // The short chain ends at 6 and has arrived at 16, the long one at 15.
  EXPECT_EQ(run.makespan(std::vector<int32_t>{1, 1, 1, 0, 0, 0, 0}), 23);
  EXPECT_EQ(run.makespan(std::vector<int32_t>{0, 0, 0, 1, 1, 1, 0}), 32);
  EXPECT_EQ(run.makespan(std::vector<int32_t>(7, 1)), 28) << "nothing is left of a run";
}

TEST(Dataflow, WhatIsReadyFirstGoesFirst) {
  // 1 and 2 are ready when 0 ends, in the order of its edges; 3 was ready before.
  Dataflow graph;
  graph.devices = 2;
  graph.compute = {2, 5, 1, 4, 10};
  graph.transfer = {1, 1, 1, 1, 1};
  graph.edges = {{0, 2}, {0, 1}, {2, 4}};
  DataflowRun run(graph);
  // Device 0: 0 to 2, 3 to 6, 2 to 7, 1 to 12; 4 begins at 8 on the other one.
  EXPECT_EQ(run.makespan(std::vector<int32_t>{0, 0, 0, 0, 1}), 18);
}

TEST(Dataflow, AnnealingFindsTheBestOfSmallGraphs) {
  for (const double transfer : {0.0, 1.0, 4.0, 10.0}) {
    const Dataflow graph = two_chains(transfer);
    DataflowRun run(graph);
    double least = INFINITY;
    for (int n = 0; n < 1 << 7; ++n) {
      std::vector<int32_t> placement;
      for (int op = 0; op < 7; ++op) placement.push_back(n >> op & 1);
      least = std::min(least, run.makespan(placement));
    }
    const Placement found = anneal(graph, std::vector<int32_t>(7, 0), 3000, 1);
    EXPECT_EQ(found.makespan, least) << transfer;
    EXPECT_EQ(run.makespan(found.devices), found.makespan);
    EXPECT_LE(found.calls, 3000);
    EXPECT_EQ(anneal(graph, std::vector<int32_t>(7, 0), 3000, 1).devices, found.devices);
  }
}

TEST(Dataflow, ASearchCanBeEnded) {
  const Dataflow graph = two_chains(1);
  int told = 0;
  const auto stop = [&](int64_t calls, double best) {
    EXPECT_GT(calls, 0);
    EXPECT_LE(best, 28);
    return ++told < 2;
  };
  EXPECT_LT(anneal(graph, std::vector<int32_t>(7, 0), 1'000'000, 1, stop).calls, 10'000);
  EXPECT_EQ(told, 2);
}

TEST(Dataflow, OneDeviceAndNoOperators) {
  Dataflow graph = two_chains(1);
  graph.devices = 1;
  EXPECT_EQ(anneal(graph, std::vector<int32_t>(7, 0), 100, 1).makespan, 28);
  EXPECT_EQ(anneal(Dataflow{}, {}, 100, 1).makespan, 0);
}

TEST(Dataflow, BadInputIsNamed) {
  const auto refused = [](const auto& change) {
    Dataflow graph = two_chains(1);
    change(graph);
    EXPECT_THROW(check(graph), UserError);
  };
  refused([](Dataflow& graph) { graph.devices = 0; });
  refused([](Dataflow& graph) { graph.transfer.pop_back(); });
  refused([](Dataflow& graph) { graph.compute[2] = -1; });
  refused([](Dataflow& graph) { graph.transfer[2] = NAN; });
  refused([](Dataflow& graph) { graph.edges.emplace_back(0, 7); });
  refused([](Dataflow& graph) { graph.edges.emplace_back(6, 0); });
  EXPECT_THROW(anneal(two_chains(1), {0}, 10, 1), UserError);
  EXPECT_THROW(anneal(two_chains(1), std::vector<int32_t>(7, 2), 10, 1), UserError);
}

}  // namespace
}  // namespace smex::schedule
