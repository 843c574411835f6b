#include "partition/lower/overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "../graphs.h"
#include "../runner.h"
#include "partition/lower/lower.h"
#include "partition/lower/residency.h"

namespace smex {
namespace {

std::vector<Graph> graphs() {
  return {test::linear_graph(12, 6, 9), test::training_graph(6, 9, 4), test::mixed_graph(6, 5),
          test::deep_graph(7, 6, 5), test::layers_graph(6, 4, 9, 2, /*checkpoints=*/true)};
}

LowerOptions at_once() { return {{}, /*join=*/true, /*overlap=*/false}; }

bool fetches(const Instr& instr, int worker, Slot slot) {
  const auto* fetch = std::get_if<FetchInstr>(&instr);
  return fetch && std::any_of(fetch->parts.begin(), fetch->parts.end(), [&](const CopyPart& part) {
           return part.worker == worker && part.slot == slot;
         });
}

/// Before which instruction a slot that is made at `position` has to be there.
int needed_at(const std::vector<Instr>& list, int position, int worker, Slot slot) {
  const auto length = static_cast<int>(list.size());
  int needed = length, freed = length;
  bool is_read = false;
  for (int n = position + 1; n < length; ++n) {
    if (const auto* free = std::get_if<FreeInstr>(&list[n]); free && free->slot == slot) freed = n;
    if (const auto* compute = std::get_if<ComputeInstr>(&list[n])) {
      const auto operands = tensor_operands(compute->args);
      if (std::find(operands.begin(), operands.end(), slot) == operands.end()) continue;
      needed = std::min(needed, n);
      is_read = true;
    } else if (fetches(list[n], worker, slot)) {
      needed = std::min(needed, std::max(n, std::get<FetchInstr>(list[n]).due));
      is_read = true;
    }
  }
  return is_read ? needed : freed;
}

TEST(Overlap, RaisesNoPeakAndIsDueAtTheFirstUse) {
  std::mt19937 random(5);
  int late = 0, sooner = 0;
  for (int round = 0; round < 60; ++round) {
    for (const Graph& graph : graphs()) {
      const Mesh mesh = round % 3 == 0 ? Mesh{2} : round % 3 == 1 ? Mesh{3} : Mesh{2, 2};
      const Plan plan = test::random_plan(random, graph, mesh);
      const Program before = lower(graph, plan, at_once());
      Program program = before;
      overlap(program, {});
      EXPECT_EQ(peak_bytes(program, {}), peak_bytes(before, {}));
      for (int w = 0; w < program.num_workers; ++w) {
        for (auto list : {&WorkerProgram::forward, &WorkerProgram::backward}) {
          const auto& instrs = program.workers[w].*list;
          for (int n = 0; n < static_cast<int>(instrs.size()); ++n) {
            const auto* fetch = std::get_if<FetchInstr>(&instrs[n]);
            if (!fetch || fetch->due < 0) continue;
            ASSERT_GT(fetch->due, n);
            const int needed = needed_at(instrs, n, w, fetch->dest);
            EXPECT_LE(fetch->due, needed);
            ++(fetch->due == needed ? late : sooner);
          }
        }
      }
      test::Runner(program, random).run();
    }
  }
  EXPECT_GT(late, 0);
  EXPECT_GT(sooner, 0) << "no peak has bound anything";
}

TEST(Overlap, LeavesOneWorkerAlone) {
  std::mt19937 random(6);
  const Graph graph = test::training_graph(6, 9, 4);
  const Program program = lower(graph, test::random_plan(random, graph, {1}));
  for (const Instr& instr : program.workers[0].backward) {
    if (const auto* fetch = std::get_if<FetchInstr>(&instr)) EXPECT_EQ(fetch->due, -1);
  }
}

}  // namespace
}  // namespace smex
