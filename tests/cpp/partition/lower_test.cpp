#include "partition/lower.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "graphs.h"
#include "partition/search.h"

namespace smex {
namespace {

bool inside(const std::vector<Interval>& box, const Shape& shape) {
  return box.size() == shape.size() && Region::whole(shape).contains(Region{box});
}

/// Runs the workers' lists without data: a fetch waits until what it reads is there.
class Checker {
 public:
  explicit Checker(const Program& program) : program_(program) {
    for (const WorkerProgram& worker : program.workers) {
      shapes_.emplace_back(worker.num_slots);
      produced_.emplace_back(worker.num_slots, false);
      freed_.emplace_back(worker.num_slots, false);
      reads_.emplace_back(worker.num_slots, 0);
    }
    for (const Binding& binding : program.inputs) {
      for (size_t w = 0; w < binding.slots.size(); ++w) {
        const int worker = static_cast<int>(w);
        if (binding.slots[w] != kNoSlot)
          produce(worker, binding.slots[w], binding.regions[w].shape());
      }
    }
  }

  void run() {
    run_lists(&WorkerProgram::forward);
    run_lists(&WorkerProgram::backward);
    for (const Binding& binding : program_.outputs) {
      for (size_t w = 0; w < binding.slots.size(); ++w) {
        const Slot slot = binding.slots[w];
        if (slot == kNoSlot) continue;
        expect_live(static_cast<int>(w), slot);
        EXPECT_EQ(shapes_[w].at(slot), binding.regions[w].shape());
      }
    }
    for (int w = 0; w < program_.num_workers; ++w) {
      EXPECT_EQ(program_.workers[w].remote_reads, reads_[w]) << "worker " << w;
    }
  }

 private:
  void run_lists(std::vector<Instr> WorkerProgram::* list) {
    std::vector<size_t> next(program_.num_workers, 0);
    for (bool progress = true; progress;) {
      progress = false;
      for (int w = 0; w < program_.num_workers; ++w) {
        const std::vector<Instr>& instrs = program_.workers[w].*list;
        while (next[w] < instrs.size() && ready(w, instrs[next[w]])) {
          step(w, instrs[next[w]++]);
          progress = true;
        }
      }
    }
    for (int w = 0; w < program_.num_workers; ++w) {
      EXPECT_EQ(next[w], (program_.workers[w].*list).size()) << "worker " << w << " waits for ever";
    }
  }

  bool ready(int worker, const Instr& instr) const {
    if (instr.kind != InstrKind::kFetch) return true;
    for (const CopyPart& part : instr.fetch.parts) {
      if (part.worker != worker && !produced_[part.worker].at(part.slot)) return false;
    }
    return true;
  }

  void step(int worker, const Instr& instr) {
    if (instr.kind == InstrKind::kFree) {
      expect_live(worker, instr.free.slot);
      freed_[worker].at(instr.free.slot) = true;
    } else if (instr.kind == InstrKind::kFetch) {
      fetch(worker, instr.fetch);
    } else {
      for (ValueId slot : tensor_operands(instr.compute.args)) expect_live(worker, slot);
      for (size_t o = 0; o < instr.compute.outputs.size(); ++o) {
        produce(worker, instr.compute.outputs[o], instr.compute.output_shapes[o]);
      }
    }
  }

  void fetch(int worker, const FetchInstr& fetch) {
    for (const CopyPart& part : fetch.parts) {
      EXPECT_TRUE(inside(part.source, shapes_[part.worker].at(part.slot)));
      EXPECT_TRUE(inside(part.dest, fetch.shape));
      EXPECT_EQ(Region{part.source}.shape(), Region{part.dest}.shape());
      if (part.worker == worker) expect_live(worker, part.slot);
      if (part.worker != worker) ++reads_[part.worker].at(part.slot);
    }
    produce(worker, fetch.dest, fetch.shape);
  }

  void produce(int worker, Slot slot, const Shape& shape) {
    EXPECT_FALSE(produced_[worker].at(slot)) << "slot " << slot << " is produced twice";
    produced_[worker].at(slot) = true;
    shapes_[worker].at(slot) = shape;
  }

  void expect_live(int worker, Slot slot) const {
    EXPECT_TRUE(produced_[worker].at(slot)) << "slot " << slot << " is used before it is produced";
    EXPECT_FALSE(freed_[worker].at(slot)) << "slot " << slot << " is used after it is freed";
  }

  const Program& program_;
  std::vector<std::vector<Shape>> shapes_;
  std::vector<std::vector<bool>> produced_;
  std::vector<std::vector<bool>> freed_;
  std::vector<std::vector<int>> reads_;
};

/// Parameters, buffers and constants outlive the run, so no list frees them.
void expect_shards_stay(const Graph& graph, const Program& program) {
  std::vector<std::set<Slot>> shards(program.num_workers);
  for (const Binding& binding : program.inputs) {
    const Role role = graph.value(binding.value).role;
    if (role == Role::kInput || role == Role::kTangent) continue;
    for (int w = 0; w < program.num_workers; ++w) shards[w].insert(binding.slots[w]);
  }
  for (int w = 0; w < program.num_workers; ++w) {
    const WorkerProgram& worker = program.workers[w];
    for (const auto* list : {&worker.forward, &worker.backward}) {
      for (const Instr& instr : *list) {
        if (instr.kind != InstrKind::kFree) continue;
        EXPECT_EQ(shards[w].count(instr.free.slot), 0u);
      }
    }
  }
}

void check(const Graph& graph, const Plan& plan) {
  const Program program = lower(graph, plan);
  expect_shards_stay(graph, program);
  ASSERT_EQ(program.num_workers, mesh_size(plan.mesh));
  Checker(program).run();
  EXPECT_EQ(moved_bytes(program, true, true), plan_bytes(graph, plan)) << graph.str();
}

std::vector<Graph> graphs() {
  return {test::linear_graph(13, 6, 9),  test::linear_graph(1, 1, 1), test::linear_graph(0, 2, 3),
          test::training_graph(5, 3, 4), test::deep_graph(7, 6, 5),   test::mixed_graph(6, 5)};
}

class Lower : public testing::TestWithParam<Mesh> {};

TEST_P(Lower, RandomPlansAreWellFormedAndMoveWhatTheyCost) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    for (const Graph& graph : graphs()) check(graph, test::random_plan(random, graph, GetParam()));
  }
}

TEST_P(Lower, SearchedPlansAreWellFormedAndMoveWhatTheyCost) {
  for (const Graph& graph : graphs()) check(graph, search(graph, GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Meshes, Lower,
                         testing::Values(Mesh{}, Mesh{2}, Mesh{3}, Mesh{2, 2}, Mesh{3, 2}));

/// `deep_graph(4, 2, 10)`: the last sum holds x, both operands' sum and the second product, when
/// neither parameter is needed any more.
TEST(PeakBytes, CountsShardsAllTheTime) {
  const Graph graph = test::deep_graph(4, 2, 10);
  const int64_t parameters = 2 * 10 * 2;
  const int64_t results = 3 * 4 * 10;
  EXPECT_EQ(peak_bytes(lower(graph, search(graph, {})), {}),
            std::vector<int64_t>{(parameters + results) * 4});
}

}  // namespace
}  // namespace smex
