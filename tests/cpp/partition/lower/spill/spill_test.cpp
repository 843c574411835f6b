#include "partition/lower/spill/spill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "../../graphs.h"
#include "../../plans.h"
#include "ir/error.h"
#include "partition/lower/list_uses.h"
#include "partition/lower/lower.h"
#include "partition/lower/residency.h"

namespace smex {
namespace {

std::vector<Graph> graphs() {
  return {test::linear_graph(12, 6, 9), test::training_graph(6, 9, 4), test::mixed_graph(6, 5),
          test::deep_graph(7, 6, 5), test::layers_graph(6, 4, 9, 2, /*checkpoints=*/true)};
}

/// Follows the moves of one worker, without data: where its tiles are.
class Follower {
 public:
  Follower(const Program& program, int worker) : program_(program), worker_(worker) {
    for (const Binding& input : program.inputs) {
      if (input.slots[worker] != kNoSlot) on_host_[input.slots[worker]] = true;
    }
  }

  void run() {
    const WorkerProgram& worker = program_.workers[worker_];
    for (const auto* list : {&worker.forward, &worker.backward}) {
      for (const Instr& instr : *list) step(instr);
      for (const Binding& output : program_.outputs) {
        const Slot slot = output.slots[worker_];
        if (list == &worker.backward && slot != kNoSlot) {
          EXPECT_TRUE(on_host_[slot]) << "output in slot " << slot;
        }
      }
    }
  }

 private:
  void step(const Instr& instr) {
    if (const auto* move = std::get_if<MoveInstr>(&instr)) return this->move(*move);
    const auto* view = std::get_if<FetchInstr>(&instr);
    if (view && view->view) {  // lies where what it shows lies
      on_device_[view->dest] = on_device_[view->parts[0].slot];
      on_host_[view->dest] = on_host_[view->parts[0].slot];
      return;
    }
    for_each_read(instr, worker_, [&](Slot slot) {
      EXPECT_TRUE(on_device_[slot]) << "slot " << slot << " is read and not there";
    });
    if (const auto* fetch = std::get_if<FetchInstr>(&instr)) EXPECT_EQ(fetch->due, -1);
    for_each_made(instr, [&](Slot slot) { on_device_[slot] = true; });
    if (const auto* free = std::get_if<FreeInstr>(&instr)) {
      EXPECT_FALSE(freed_[free->slot]);
      freed_[free->slot] = true;
    }
  }

  void move(const MoveInstr& move) {
    const bool has_copy = std::any_of(move.slots.begin(), move.slots.end(),
                                      [&](Slot slot) { return on_host_[slot]; });
    for (const Slot slot : move.slots) {
      EXPECT_FALSE(freed_[slot]);
      switch (move.kind) {
        case MoveInstr::Kind::kWrite:
          EXPECT_TRUE(on_device_[slot]);
          on_host_[slot] = true;
          break;
        case MoveInstr::Kind::kDrop:
          on_device_[slot] = false;
          on_host_[slot] = has_copy;
          break;
        case MoveInstr::Kind::kRestore:
          EXPECT_TRUE(on_host_[slot]);
          EXPECT_FALSE(on_device_[slot]);
          on_device_[slot] = true;
          break;
      }
    }
  }

  const Program& program_;
  const int worker_;
  std::map<Slot, bool> on_device_, on_host_, freed_;
};

int64_t frees(const Program& program) {
  int64_t count = 0;
  for (const WorkerProgram& worker : program.workers) {
    for (const auto* list : {&worker.forward, &worker.backward}) {
      for (const Instr& instr : *list) count += std::holds_alternative<FreeInstr>(instr);
    }
  }
  return count;
}

TEST(Spill, KeepsToTheCapacityWithAllThatIsReadOnTheDevice) {
  std::mt19937 random(11);
  for (int round = 0; round < 40; ++round) {
    for (const Graph& graph : graphs()) {
      const Mesh mesh = round % 3 == 0 ? Mesh{1} : round % 3 == 1 ? Mesh{2} : Mesh{3};
      const Program before = lower(graph, test::random_plan(random, graph, mesh));
      const int64_t least = largest_instr(before, {}).bytes;
      for (const SpillPolicy policy :
           {SpillPolicy::kDp, SpillPolicy::kBelady, SpillPolicy::kLru, SpillPolicy::kNone}) {
        Program program = before;
        const SpillOptions options{least + round % 4 * least / 4, policy, {}};
        const std::vector<SpillTraffic> traffic = spill(program, options);
        SpillTraffic sum;
        for (int w = 0; w < program.num_workers; ++w) {
          sum.to_host += traffic[w].to_host;
          sum.to_device += traffic[w].to_device;
          Follower(program, w).run();
        }
        const SpillTraffic counted = spilled_bytes(program, true, true);
        EXPECT_EQ(counted.to_host, sum.to_host) << round;
        EXPECT_EQ(counted.to_device, sum.to_device) << round;
        for (const int64_t peak : peak_bytes(program, {})) {
          EXPECT_LE(peak, options.capacity) << round;
        }
        EXPECT_EQ(frees(program), frees(before));
        EXPECT_EQ(moved_bytes(program, true, true), moved_bytes(before, true, true));
      }
    }
  }
}

TEST(Spill, MovesOnlyInputsAndResultsWhereAllFits) {
  const Graph graph = test::training_graph(6, 9, 4);
  std::mt19937 random(2);
  Program program = lower(graph, test::random_plan(random, graph, {1}));
  const SpillProblem problem = spill_problem(program, 0, {1 << 30, SpillPolicy::kDp, {}});
  int64_t given = 0, kept = 0;
  for (const SpillBlock& block : problem.blocks) {
    if (block.on_host && !block.uses.empty()) given += block.bytes;
    if (block.kept && !block.on_host) kept += block.bytes;
  }
  const SpillTraffic traffic = spill(program, {1 << 30, SpillPolicy::kDp, {}}).at(0);
  EXPECT_EQ(traffic.to_device, given);
  EXPECT_EQ(traffic.to_host, kept);
  EXPECT_EQ(traffic.least, given + kept);
}

TEST(Spill, NamesTheInstructionThatDoesNotFit) {
  const Graph graph = test::training_graph(6, 9, 4);
  std::mt19937 random(2);
  Program program = lower(graph, test::random_plan(random, graph, {1}));
  const LargestInstr largest = largest_instr(program, {});
  EXPECT_GT(largest.bytes, 0);
  EXPECT_FALSE(largest.text.empty());
  try {
    spill(program, {largest.bytes - 1, SpillPolicy::kDp, {}});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find(largest.text), std::string::npos) << error.what();
  }
  EXPECT_FALSE(program.spills());
}

/// y = view(x); z = f(y); w = g(x): one block of two slots.
Program with_view() {
  const auto call = [](std::string target, std::vector<Slot> in, Slot out) {
    ComputeInstr instr;
    instr.target = std::move(target);
    for (const Slot slot : in) instr.args.emplace_back(ValueRef{slot});
    instr.outputs = {out};
    instr.output_shapes = {{4}};
    return instr;
  };
  Program program{1, {}, {}, {}, 0};
  WorkerProgram worker;
  worker.num_slots = 5;
  worker.remote_reads.assign(5, 0);
  worker.slot_itemsizes.assign(5, 1);
  worker.forward = {call("f", {0}, 1), call("view", {1}, 2), FreeInstr{1}, call("f", {0}, 3),
                    FreeInstr{3},      call("f", {2}, 4),    FreeInstr{2}};
  program.workers = {worker};
  program.inputs = {{0, {0}, {Region::whole({4})}}};
  program.outputs = {{4, {4}, {Region::whole({4})}}};
  return program;
}

TEST(Spill, ViewsComeAndGoWithTheirMemory) {
  Program program = with_view();
  const SpillOptions options{8, SpillPolicy::kDp, {"view"}};
  EXPECT_EQ(spill_problem(program, 0, options).num_steps, 3);  // the view needs nothing there
  const SpillTraffic traffic = spill(program, options).at(0);
  EXPECT_EQ(traffic.to_host, 4 + 4);    // the viewed tile, and the output
  EXPECT_EQ(traffic.to_device, 4 + 4);  // the input, and the viewed tile
  EXPECT_EQ(peak_bytes(program, {"view"}), std::vector<int64_t>{8});
  std::vector<Slot> restored;
  for (const Instr& instr : program.workers[0].forward) {
    const auto* move = std::get_if<MoveInstr>(&instr);
    if (move && move->kind == MoveInstr::Kind::kRestore && move->slots[0] != 0) {
      restored = move->slots;
    }
  }
  EXPECT_EQ(restored, (std::vector<Slot>{1, 2}));  // its first slot is freed the last
}

TEST(Spill, LetsInputsBeOne) {
  Program program = with_view();
  program.workers[0].num_slots = 6;
  program.workers[0].remote_reads.push_back(0);
  program.workers[0].slot_itemsizes.push_back(1);
  std::get<ComputeInstr>(program.workers[0].forward[3]).args = {ValueRef{5}};
  program.inputs.push_back({9, {5}, {Region::whole({4})}});
  merge_inputs(program, {{0, 9}});
  EXPECT_EQ(std::get<ComputeInstr>(program.workers[0].forward[3]).args,
            std::vector<Attr>{ValueRef{0}});
  EXPECT_EQ(program.inputs[1].slots, std::vector<Slot>{kNoSlot});
  EXPECT_THROW(merge_inputs(program, {{0, 77}}), UserError);
}

}  // namespace
}  // namespace smex
