#include "partition/lower/lower.h"
#include "partition/lower/residency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "../graphs.h"
#include "ir/error.h"
#include "partition/search/search.h"

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
    const auto* const fetch = std::get_if<FetchInstr>(&instr);
    if (!fetch) return true;
    for (const CopyPart& part : fetch->parts) {
      if (part.worker != worker && !produced_[part.worker].at(part.slot)) return false;
    }
    return true;
  }

  void step(int worker, const Instr& instr) {
    if (const auto* free = std::get_if<FreeInstr>(&instr)) {
      expect_live(worker, free->slot);
      freed_[worker].at(free->slot) = true;
    } else if (const auto* assembled = std::get_if<FetchInstr>(&instr)) {
      fetch(worker, *assembled);
    } else {
      const auto& compute = std::get<ComputeInstr>(instr);
      for (ValueId slot : tensor_operands(compute.args)) expect_live(worker, slot);
      for (size_t o = 0; o < compute.outputs.size(); ++o) {
        produce(worker, compute.outputs[o], compute.output_shapes[o]);
      }
    }
  }

  void fetch(int worker, const FetchInstr& fetch) {
    for (const CopyPart& part : fetch.parts) {
      EXPECT_TRUE(inside(part.source.dims, shapes_[part.worker].at(part.slot)));
      EXPECT_TRUE(inside(part.dest.dims, fetch.shape));
      EXPECT_EQ(part.source.shape(), part.dest.shape());
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
    if (!binding.contents.empty()) continue;
    const Role role = graph.value(binding.value).role;
    if (role == Role::kInput || role == Role::kTangent) continue;
    for (int w = 0; w < program.num_workers; ++w) shards[w].insert(binding.slots[w]);
  }
  for (int w = 0; w < program.num_workers; ++w) {
    const WorkerProgram& worker = program.workers[w];
    for (const auto* list : {&worker.forward, &worker.backward}) {
      for (const Instr& instr : *list) {
        const auto* const free = std::get_if<FreeInstr>(&instr);
        if (!free) continue;
        EXPECT_EQ(shards[w].count(free->slot), 0u);
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

Graph graph_network() {
  std::mt19937 random(3);
  return test::messages_graph(random, 14, 6);
}

std::vector<Graph> graphs() {
  return {test::linear_graph(13, 6, 9),
          test::linear_graph(1, 1, 1),
          test::linear_graph(0, 2, 3),
          test::training_graph(5, 3, 4),
          test::deep_graph(7, 6, 5),
          test::mixed_graph(6, 5),
          test::attention_graph(3, 9, 4),
          test::layers_graph(5, 4, 6, 2, /*checkpoints=*/true),
          graph_network()};
}

class Lower : public testing::TestWithParam<Mesh> {};

TEST_P(Lower, RandomPlansAreWellFormedAndMoveWhatTheyCost) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    for (const Graph& graph : graphs()) check(graph, test::random_plan(random, graph, GetParam()));
    for (const Graph& graph :
         {test::elementwise_graph(random, 12), test::messages_graph(random, 11, 5)}) {
      check(graph, test::random_plan(random, graph, GetParam()));
    }
  }
}

TEST_P(Lower, SearchedPlansAreWellFormedAndMoveWhatTheyCost) {
  for (const Graph& graph : graphs()) check(graph, search(graph, GetParam()));
}

TEST_P(Lower, PlansOfGivenPartsAreWellFormedAndMoveWhatTheyCost) {
  std::mt19937 random(5);
  for (int round = 0; round < 30; ++round) {
    const Graph even = test::messages_graph(random, 5 + static_cast<int64_t>(random() % 20), 5);
    const Graph graph = test::cut_anywhere(random, even, mesh_size(GetParam()));
    check(graph, test::random_plan(random, graph, GetParam()));
    check(graph, search(graph, GetParam()));
  }
}

TEST_P(Lower, PlansOfWeightedCutsAreWellFormedAndMoveWhatTheyCost) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    for (Graph graph : graphs()) {
      test::weigh(random, mesh_size(GetParam()), graph);
      Plan plan = test::random_plan(random, graph, GetParam());
      test::weigh_choices(random, plan);
      check(graph, plan);
      SearchOptions options;
      options.weighting = 1 + static_cast<int>(seed % 3);
      check(graph, search(graph, GetParam(), options));
    }
  }
}

/// Tiles cut anywhere along one dimension, or whole where there is none to cut.
std::vector<Tile> random_shards(std::mt19937& random, const Shape& shape, int workers) {
  std::vector<Tile> tiles(workers, Tile{true, Region::whole(shape)});
  const size_t dim = random() % (shape.size() + 1);
  if (dim == shape.size()) return tiles;
  int64_t lo = 0;
  for (int w = 0; w < workers; ++w) {
    const int64_t rest = shape[dim] - lo;
    const int64_t hi =
        w + 1 == workers ? shape[dim] : lo + static_cast<int64_t>(random() % (rest + 1));
    tiles[w].region.dims[dim] = {lo, hi};
    tiles[w].held = lo < hi || shape[dim] == 0;
    lo = hi;
  }
  return tiles;
}

/// Shards that another capture was cut into: uneven, on some workers only.
TEST_P(Lower, PlansThatKeepShardsAreWellFormed) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    for (const Graph& graph : graphs()) {
      Plan plan = test::random_plan(random, graph, GetParam());
      std::map<ValueId, std::vector<Tile>> shards;
      for (const Value& value : graph.values()) {
        if (value.role != Role::kParameter && value.role != Role::kInput) continue;
        shards[value.id] = random_shards(random, value.shape, mesh_size(GetParam()));
      }
      keep_shards(graph, shards, plan);
      check(graph, plan);
      const Program program = lower(graph, plan);
      for (const auto* bindings : {&program.inputs, &program.outputs}) {
        for (size_t b = 0; b < bindings->size(); ++b) {
          const Binding& binding = (*bindings)[b];
          const bool is_input = bindings == &program.inputs;
          const auto found = shards.find(is_input ? binding.value : graph.outputs()[b].target);
          if (found == shards.end()) continue;
          for (int w = 0; w < program.num_workers; ++w) {
            EXPECT_EQ(binding.slots[w] != kNoSlot, found->second[w].held);
            if (found->second[w].held) EXPECT_EQ(binding.regions[w], found->second[w].region);
          }
        }
      }
    }
  }
}

/// One sum that is the gradient of two parameters, whose shards differ.
TEST(KeepShards, AGradientOfTwoParametersIsMovedToBoth) {
  test::Builder b;
  const ValueId first = b.input({4, 6}, Role::kParameter);
  const ValueId second = b.input({4, 6}, Role::kParameter);
  const ValueId tangent = b.input({4, 6}, Role::kTangent);
  b.output(b.add(first, second));
  const ValueId gradient = b.add(tangent, tangent);
  b.graph.add_output({gradient, OutputKind::kGradient, "first", first});
  b.graph.add_output({gradient, OutputKind::kGradient, "second", second});
  Plan plan = search(b.graph, {2});
  const auto tile = [](int64_t top, int64_t bottom, int64_t left, int64_t right) {
    return Tile{true, Region{{{top, bottom}, {left, right}}}};
  };
  keep_shards(b.graph,
              {{first, {tile(0, 3, 0, 6), tile(3, 4, 0, 6)}},
               {second, {tile(0, 4, 0, 1), tile(0, 4, 1, 6)}}},
              plan);
  const Program program = lower(b.graph, plan);
  Checker(program).run();
  EXPECT_EQ(program.outputs[1].regions[1].shape(), (Shape{1, 6}));
  EXPECT_EQ(program.outputs[2].regions[1].shape(), (Shape{4, 5}));
}

TEST(KeepShards, RefusesTilesThatDoNotFit) {
  const Graph graph = test::training_graph(5, 3, 4);
  Plan plan = search(graph, {2});
  const Tile whole{true, Region::whole({4, 3})};
  EXPECT_THROW(keep_shards(graph, {{1, {whole}}}, plan), InternalError);
  const Tile flat{true, Region::whole({12})};
  EXPECT_THROW(keep_shards(graph, {{1, {flat, flat}}}, plan), InternalError);
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

/// How often each op computes in a worker's two lists.
std::vector<std::map<OpId, int>> runs(const Program& program) {
  std::vector<std::map<OpId, int>> counts;
  for (const auto* list : {&program.workers[0].forward, &program.workers[0].backward}) {
    auto& count = counts.emplace_back();
    for (const Instr& instr : *list) {
      if (const auto* compute = std::get_if<ComputeInstr>(&instr)) ++count[compute->op];
    }
  }
  return counts;
}

/// Of a layer the first product and the sum run again, the second product is the next one's input.
/// How often the workers weigh their parts of a mean, under one split of the attention.
int weighed_parts(int index) {
  const Graph graph = test::attention_graph(4, 8, 6);
  Plan plan = search(graph, {2});
  for (const Op& op : graph.ops()) {
    if (op.target == "attend") plan.ops[op.id] = {index};
  }
  int count = 0;
  for (const WorkerProgram& worker : lower(graph, plan).workers) {
    count += std::count_if(worker.forward.begin(), worker.forward.end(), [](const Instr& instr) {
      const auto* const compute = std::get_if<ComputeInstr>(&instr);
      return compute && compute->target == "smex::weigh_part";
    });
  }
  return count;
}

TEST(WeightedMeans, OfPartsAreWeighedWhereKeysAreCut) {
  EXPECT_EQ(weighed_parts(/*queries=*/0), 0);
  EXPECT_EQ(weighed_parts(/*keys=*/1), 2);
  EXPECT_EQ(weighed_parts(/*elements=*/2), 0);
}

TEST(Recomputed, RunsInTheBackwardPassOnce) {
  const Graph graph = test::layers_graph(5, 4, 6, 2, /*checkpoints=*/true);
  const auto counts = runs(lower(graph, search(graph, {2})));
  for (OpId op = 0; op < 6; ++op) {
    EXPECT_EQ(counts[0].at(op), 1);
    EXPECT_EQ(counts[1].count(op), op % 3 < 2) << "op " << op;
  }
  for (const auto& [op, count] : counts[1]) EXPECT_EQ(count, 1);
}

/// With n rows a layer keeps its input, n m, in place of that and its inner tensors, 2 n k.
TEST(Recomputed, IsNotKept) {
  const int64_t n = 64, m = 2, k = 16;
  const auto peak = [&](int layers, bool checkpoints) {
    const Graph graph = test::layers_graph(n, m, k, layers, checkpoints);
    return peak_bytes(lower(graph, search(graph, {})), {})[0];
  };
  const int64_t weights = 2 * m * k;  // the peak is at the begin of the backward pass
  EXPECT_EQ(peak(6, false) - peak(5, false), (n * m + 2 * n * k + weights) * 4);
  EXPECT_EQ(peak(6, true) - peak(5, true), (n * m + weights) * 4);
}

TEST(HeldBytes, ThePeakIsTheirLargest) {
  for (const Graph& graph : graphs()) {
    const Program program = lower(graph, search(graph, {2}));
    const std::vector<int64_t> peaks = peak_bytes(program, {});
    for (int w = 0; w < 2; ++w) {
      const std::vector<int64_t> held = held_bytes(program, w, {});
      const WorkerProgram& worker = program.workers[w];
      EXPECT_EQ(held.size(), 1 + worker.forward.size() + worker.backward.size());
      EXPECT_EQ(*std::max_element(held.begin(), held.end()), peaks[w]);
    }
    EXPECT_THROW(held_bytes(program, 2, {}), UserError);
  }
}

}  // namespace
}  // namespace smex
