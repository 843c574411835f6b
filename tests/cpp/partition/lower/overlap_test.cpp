#include "partition/lower/overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "../graphs.h"
#include "partition/lower/lower.h"

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

/// Runs lists without data, where a fetch that is not due stays open and the workers go on in an
/// order drawn at random; who waits goes on with what is open.
class Runner {
 public:
  Runner(const Program& program, std::mt19937& random) : program_(program), random_(random) {
    for (const WorkerProgram& worker : program.workers) {
      written_.emplace_back(worker.num_slots, false);
    }
    for (const Binding& binding : program.inputs) {
      for (size_t w = 0; w < binding.slots.size(); ++w) {
        if (binding.slots[w] != kNoSlot) written_[w][binding.slots[w]] = true;
      }
    }
  }

  void run() {
    run_lists(&WorkerProgram::forward);
    run_lists(&WorkerProgram::backward);
  }

 private:
  void run_lists(std::vector<Instr> WorkerProgram::* list) {
    std::vector<int> next(program_.num_workers, 0);
    std::vector<std::vector<const FetchInstr*>> open(program_.num_workers);
    std::vector<int> order;
    for (int w = 0; w < program_.num_workers; ++w) order.push_back(w);
    for (bool is_moving = true; is_moving;) {
      is_moving = false;
      std::shuffle(order.begin(), order.end(), random_);
      for (const int w : order) {
        is_moving = finish(w, open[w]) || is_moving;
        const auto& instrs = program_.workers[w].*list;
        const bool waits = std::any_of(open[w].begin(), open[w].end(),
                                       [&](const auto* fetch) { return fetch->due <= next[w]; });
        if (waits || next[w] == static_cast<int>(instrs.size())) continue;
        if (!step(w, instrs[next[w]], open[w])) continue;
        ++next[w];
        is_moving = true;
      }
    }
    for (int w = 0; w < program_.num_workers; ++w) {
      EXPECT_EQ(next[w], static_cast<int>((program_.workers[w].*list).size()));
      EXPECT_TRUE(open[w].empty()) << "worker " << w;
    }
  }

  bool is_there(const FetchInstr& fetch) const {
    return std::all_of(fetch.parts.begin(), fetch.parts.end(),
                       [&](const CopyPart& part) { return written_[part.worker][part.slot]; });
  }

  bool finish(int worker, std::vector<const FetchInstr*>& open) {
    const auto gone = std::stable_partition(open.begin(), open.end(),
                                            [&](const auto* fetch) { return !is_there(*fetch); });
    const bool has_moved = gone != open.end();
    for (auto fetch = gone; fetch != open.end(); ++fetch) written_[worker][(*fetch)->dest] = true;
    open.erase(gone, open.end());
    return has_moved;
  }

  bool step(int worker, const Instr& instr, std::vector<const FetchInstr*>& open) {
    if (const auto* fetch = std::get_if<FetchInstr>(&instr)) {
      if (fetch->due >= 0) {
        open.push_back(fetch);
        return true;
      }
      if (!is_there(*fetch)) return false;
      written_[worker][fetch->dest] = true;
    } else if (const auto* compute = std::get_if<ComputeInstr>(&instr)) {
      for (const ValueId slot : tensor_operands(compute->args)) {
        EXPECT_TRUE(written_[worker][slot]) << "slot " << slot << " is used before it is there";
      }
      for (const Slot slot : compute->outputs) {
        if (slot != kNoSlot) written_[worker][slot] = true;
      }
    }
    return true;
  }

  const Program& program_;
  std::mt19937& random_;
  std::vector<std::vector<bool>> written_;  ///< by worker and slot
};

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
      Runner(program, random).run();
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
