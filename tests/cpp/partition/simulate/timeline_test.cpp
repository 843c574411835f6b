#include "partition/simulate/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "../graphs.h"
#include "../runner.h"
#include "ir/error.h"
#include "partition/lower/lower.h"

namespace smex {
namespace {

ComputeInstr compute(std::vector<ValueId> operands, Slot output) {
  ComputeInstr instr;
  instr.target = "aten::relu";
  for (const ValueId operand : operands) instr.args.emplace_back(ValueRef{operand});
  instr.outputs = {output};
  instr.output_shapes = {{10}};
  return instr;
}

FetchInstr fetch(int from, Slot slot, Slot dest, int due = -1) {
  FetchInstr instr;
  instr.dest = dest;
  instr.shape = {10};
  instr.dtype = "float32";
  instr.parts = {{from, slot, Region::whole({10}), Region::whole({10})}};
  instr.due = due;
  instr.relayout = dest;
  return instr;
}

/// Both workers make a tile, fetch the other's and compute something else before they read it.
Program exchange(int due) {
  Program program;
  program.num_workers = 2;
  for (const int w : {0, 1}) {
    WorkerProgram worker;
    worker.num_slots = 5;
    worker.slot_itemsizes.assign(5, 4);
    worker.forward = {compute({0}, 1), fetch(1 - w, 1, 2, due), compute({0}, 3),
                      compute({2, 3}, 4)};
    program.workers.push_back(std::move(worker));
  }
  program.inputs = {{0, {0, 0}, {Region::whole({10}), Region::whole({10})}}};
  return program;
}

InstrSeconds seconds(double other) {
  const std::array<std::vector<double>, 2> each{std::vector<double>{1, 0, other, 1}, {}};
  return {each, each};
}

// The tile of 40 bytes takes 4 s.
Machine link(double overlap) { return {{}, {{0.5, 10, overlap}}}; }

TEST(Simulate, WaitsAtOnceOrWhenItIsDue) {
  EXPECT_DOUBLE_EQ(simulate(exchange(-1), seconds(3), {2}, link(1)).seconds, 1 + 4.5 + 3 + 1);
  const Timeline late = simulate(exchange(3), seconds(3), {2}, link(1));
  EXPECT_DOUBLE_EQ(late.seconds, 1 + 4.5 + 1);
  EXPECT_DOUBLE_EQ(late.least, 1 + 4.5 + 1);
  for (const int w : {0, 1}) {
    EXPECT_DOUBLE_EQ(late.busy[w], 5);
    EXPECT_DOUBLE_EQ(late.waiting[w], 1.5);
    EXPECT_DOUBLE_EQ(late.transferred[w], 4);
  }
}

TEST(Simulate, WhatTheWorkerMovesItselfIsNotHidden) {
  // Of 4 s, 2.5 pass while the worker computes, which it is then later with.
  EXPECT_DOUBLE_EQ(simulate(exchange(3), seconds(3), {2}, link(0)).seconds, 1 + 4.5 + 2.5 + 1);
  EXPECT_DOUBLE_EQ(simulate(exchange(3), seconds(9), {2}, link(0.5)).seconds, 1 + 9 + 2 + 1);
}

TEST(Simulate, ALinkCarriesOneAfterTheOther) {
  Program program = exchange(3);
  for (const int w : {0, 1}) {
    program.workers[w].num_slots = 6;
    program.workers[w].slot_itemsizes.assign(6, 4);
    auto& list = program.workers[w].forward;
    list.insert(list.begin() + 2, fetch(1 - w, 1, 5, 4));
    std::get<FetchInstr>(list[1]).due = 4;
  }
  const std::array<std::vector<double>, 2> each{std::vector<double>{1, 0, 0, 3, 1}, {}};
  EXPECT_DOUBLE_EQ(simulate(program, {each, each}, {2}, link(1)).seconds, 1 + 8.5 + 1);
}

TEST(Simulate, TakesTheLinkOfTheStepInWhichWorkersDiffer) {
  Program program;
  program.num_workers = 4;
  for (int w = 0; w < 4; ++w) {
    WorkerProgram worker;
    worker.num_slots = 2;
    worker.slot_itemsizes.assign(2, 4);
    program.workers.push_back(std::move(worker));
  }
  program.workers[0].forward = {fetch(1, 0, 1)};
  program.workers[2].forward = {fetch(0, 0, 1)};
  const Machine links{{}, {{0, 1}, {0, 10}}};
  InstrSeconds none(4);
  none[0][0] = none[2][0] = {0};
  EXPECT_DOUBLE_EQ(simulate(program, none, {2, 2}, links).waiting[0], 4);
  EXPECT_DOUBLE_EQ(simulate(program, none, {2, 2}, links).waiting[2], 40);
}

/// Worker 1 fetches two tiles of worker 0 and reads the second one first.
Program two_messages() {
  Program program;
  program.num_workers = 2;
  WorkerProgram sender, receiver;
  sender.num_slots = 2;
  receiver.num_slots = 6;
  receiver.forward = {fetch(0, 0, 1, 4), fetch(0, 1, 2, 3), compute({0}, 3), compute({2, 3}, 4),
                      compute({1, 4}, 5)};
  sender.slot_itemsizes.assign(2, 4);
  receiver.slot_itemsizes.assign(6, 4);
  program.workers = {std::move(sender), std::move(receiver)};
  return program;
}

TEST(Simulate, WhatIsNeededSoonestGoesFirst) {
  const std::array<std::vector<double>, 2> none{};
  const std::array<std::vector<double>, 2> receiver{std::vector<double>{0, 0, 1, 1, 1}, {}};
  const Timeline timeline = simulate(two_messages(), {none, receiver}, {2}, link(1));
  EXPECT_EQ(timeline.messages[0], (std::vector<Message>{{2, 0, 1}, {1, 0, 1}}));
  EXPECT_TRUE(timeline.messages[1].empty());
  EXPECT_DOUBLE_EQ(timeline.seconds, 4 + 4 + 0.5 + 1);
}

TEST(Simulate, WhatIsThereDoesNotWaitForOthers) {
  // The first relayout is needed first, but made 3 s later than the other.
  const std::array<std::vector<double>, 2> each{std::vector<double>{3, 0, 0, 1, 1}, {}};
  Program program = exchange(3);
  for (const int w : {0, 1}) {
    auto& list = program.workers[w].forward;
    program.workers[w].num_slots = 6;
    program.workers[w].slot_itemsizes.assign(6, 4);
    list.insert(list.begin() + 2, fetch(1 - w, 0, 5, 5));
    std::get<FetchInstr>(list[1]).due = 4;
  }
  const Timeline timeline = simulate(program, {each, each}, {2}, Machine{{}, {{0, 10, 1}}});
  EXPECT_EQ(timeline.messages[0][0].relayout, 5);
  EXPECT_EQ(timeline.messages[0][2].relayout, 2);
  EXPECT_DOUBLE_EQ(timeline.seconds, 4 + 4 + 1);
}

/// Worker 0 makes tiles one after the other; worker 1 fetches and reads them in the order `read`.
Program several_messages(size_t tiles, const std::vector<int>& read) {
  Program program;
  program.num_workers = 2;
  WorkerProgram sender, receiver;
  const Slot made = static_cast<Slot>(tiles);
  sender.num_slots = made + 1;
  receiver.num_slots = 2 * made + 1;
  for (Slot slot = 1; slot <= made; ++slot) {
    sender.forward.emplace_back(compute({0}, slot));
    const auto at = std::find(read.begin(), read.end(), slot) - read.begin();
    receiver.forward.emplace_back(fetch(0, slot, slot, static_cast<int>(tiles + at)));
  }
  for (const int slot : read) receiver.forward.emplace_back(compute({slot}, made + slot));
  sender.slot_itemsizes.assign(sender.num_slots, 4);
  receiver.slot_itemsizes.assign(receiver.num_slots, 4);
  program.inputs = {{0, {0, 0}, {Region::whole({10}), Region::whole({10})}}};
  program.workers = {std::move(sender), std::move(receiver)};
  return program;
}

TEST(Simulate, LeastCountsWhatAProcessReceives) {
  // Made at 1, 2 and 3 s; each takes 4 s of the port, the latency once, and 1 s when it is there.
  const std::array<std::vector<double>, 2> sender{std::vector<double>{1, 1, 1}, {}};
  const std::array<std::vector<double>, 2> receiver{std::vector<double>{0, 0, 0, 1, 1, 1}, {}};
  const Timeline timeline =
      simulate(several_messages(3, {1, 2, 3}), {sender, receiver}, {2}, link(1));
  EXPECT_DOUBLE_EQ(timeline.least, 1 + 3 * 4 + 0.5 + 1);
  EXPECT_DOUBLE_EQ(timeline.seconds, timeline.least);
}

TEST(Simulate, LeastInterruptsWhatIsNeededLater) {
  // The tile that is read first is made last: 1 s after the other, which has gone for that long.
  // No message can be interrupted, so that the course takes 3 s more than the bound.
  const std::array<std::vector<double>, 2> sender{std::vector<double>{1, 1}, {}};
  const std::array<std::vector<double>, 2> receiver{std::vector<double>{0, 0, 9, 1}, {}};
  const Timeline timeline = simulate(several_messages(2, {2, 1}), {sender, receiver}, {2}, link(1));
  EXPECT_DOUBLE_EQ(timeline.least, 2 + 4 + 0.5 + 9 + 1);
  EXPECT_DOUBLE_EQ(timeline.seconds, timeline.least + 3);
}

TEST(Simulate, MessagesOfItsOrderNeverWaitInACircle) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> draw(0, 1);
  const std::vector<Graph> graphs{test::training_graph(6, 9, 4), test::mixed_graph(6, 5),
                                  test::deep_graph(7, 6, 5)};
  const std::vector<std::pair<Mesh, std::vector<int>>> places{
      {{2}, {0, 1}}, {{3}, {0, 1, 2}}, {{2, 2}, {0, 1, 2, 3}}, {{2, 2}, {0, 0, 1, 1}}};
  int reordered = 0;
  for (int round = 0; round < 40; ++round) {
    for (const Graph& graph : graphs) {
      const auto& [mesh, ranks] = places[round % places.size()];
      const Program program = lower(graph, test::random_plan(random, graph, mesh));
      InstrSeconds seconds(program.num_workers);
      for (int w = 0; w < program.num_workers; ++w) {
        for (const bool backward : {false, true}) {
          for (size_t n = 0; n < program.workers[w].list(backward).size(); ++n) {
            seconds[w][backward].push_back(draw(random));
          }
        }
      }
      const Machine links{{}, std::vector<Link>(mesh.size(), {0.01, 100, draw(random)})};
      const Timeline timeline = simulate(program, seconds, mesh, links, ranks);
      for (const auto& list : timeline.messages) {
        reordered += !std::is_sorted(list.begin(), list.end(), [](const auto& a, const auto& b) {
          return a.relayout < b.relayout;
        });
      }
      for (int n = 0; n < 3; ++n) test::Runner(program, random, timeline.messages, ranks).run();
    }
  }
  EXPECT_GT(reordered, 0);
}

TEST(Simulate, SaysWhatIsMissing) {
  EXPECT_THROW(simulate(exchange(3), seconds(3), {2}, {}), UserError);
  EXPECT_THROW(simulate(exchange(3), {}, {2}, link(1)), UserError);
  Program program = exchange(-1);
  for (WorkerProgram& worker : program.workers) {
    std::swap(worker.forward[0], worker.forward[1]);  // each waits for the other's first tile
  }
  EXPECT_THROW(simulate(program, seconds(3), {2}, link(1)), InternalError);
}

TEST(PredictedSeconds, AreTheRoofline) {
  Program program = exchange(3);
  std::get<ComputeInstr>(program.workers[0].forward[0]).operations = 1000;
  const Machine machine{{{{4, 100}}, 20, 0.5}, {}};
  const auto found = predicted_seconds(program, machine, {});
  EXPECT_EQ(found[0][0], (std::vector<double>{10, 0, 4, 6}));  // arithmetic, a peer's, bytes
  std::get<ComputeInstr>(program.workers[0].forward[0]).gathered = 400;
  EXPECT_EQ(predicted_seconds(program, machine, {})[0][0][0], 400.0 / 20);
  const Machine gathering{{{{4, 100}}, 20, 0.5, 32}, {}};
  EXPECT_EQ(predicted_seconds(program, gathering, {})[0][0][0], 400.0 / 32);
  EXPECT_EQ(predicted_seconds(program, machine, {"aten::relu"})[1][0],
            (std::vector<double>{0, 0, 0, 0}));
}

}  // namespace
}  // namespace smex
