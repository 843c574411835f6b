#include "partition/lower/in_place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "../graphs.h"
#include "../runner.h"
#include "partition/lower/lower.h"
#include "partition/lower/overlap.h"
#include "partition/lower/residency.h"

namespace smex {
namespace {

/// A plan's program, with torch's names.
Program program_of(const Graph& graph, const Plan& plan) {
  Program program = lower(graph, plan, {{}, /*join=*/false, /*overlap=*/false});
  for (WorkerProgram& worker : program.workers) {
    for (auto* const list : {&worker.forward, &worker.backward}) {
      for (Instr& instr : *list) {
        auto* const compute = std::get_if<ComputeInstr>(&instr);
        if (!compute) continue;
        if (compute->target == "mm") compute->target = "aten::mm";
        if (compute->target == "add") compute->target = "aten::add.Tensor";
      }
    }
  }
  return program;
}

/// The position in a dense tensor of a box's first element.
int64_t first_of(const Region& box, const Shape& shape) {
  int64_t position = 0;
  for (size_t d = 0; d < shape.size(); ++d) position = position * shape[d] + box.dims[d].lo;
  return position;
}

/// Checks that a begun fetch has one part that is there, which an earlier call has written; how
/// many have.
int check(const Program& program, int worker, const std::vector<Instr>& list) {
  int begun = 0;
  for (size_t n = 0; n < list.size(); ++n) {
    const auto* const fetch = std::get_if<FetchInstr>(&list[n]);
    if (!fetch) continue;
    const auto is_there = [](const CopyPart& part) { return part.in_place; };
    EXPECT_EQ(std::count_if(fetch->parts.begin(), fetch->parts.end(), is_there), fetch->begun);
    if (!fetch->begun) continue;
    ++begun;
    const CopyPart& part = *std::find_if(fetch->parts.begin(), fetch->parts.end(), is_there);
    EXPECT_EQ(part.worker, worker);
    const auto maker = std::find_if(list.begin(), list.begin() + n, [&](const Instr& instr) {
      const auto* const compute = std::get_if<ComputeInstr>(&instr);
      return compute && compute->inside.dest == fetch->dest;
    });
    if (maker == list.begin() + n) {
      ADD_FAILURE() << "nothing begins slot " << fetch->dest << " of\n" << program.str();
      continue;
    }
    const auto& compute = std::get<ComputeInstr>(*maker);
    EXPECT_EQ(compute.outputs, std::vector<Slot>{part.slot});
    EXPECT_EQ(compute.inside.shape, fetch->shape);
    EXPECT_EQ(compute.inside.offset, first_of(part.dest, fetch->shape));
    EXPECT_EQ(compute.output_shapes[0], part.source.shape());
  }
  return begun;
}

TEST(WriteInPlace, BeginsTilesAndRaisesNoPeak) {
  std::mt19937 random(7);
  int begun = 0, lower_peaks = 0;
  const std::vector<Graph> graphs{test::training_graph(6, 9, 4), test::deep_graph(7, 6, 5),
                                  test::mixed_graph(6, 5),
                                  test::layers_graph(6, 4, 9, 2, /*checkpoints=*/true)};
  for (int round = 0; round < 60; ++round) {
    for (const Graph& graph : graphs) {
      const Mesh mesh = round % 2 ? Mesh{3} : Mesh{2, 2};
      const Program before = program_of(graph, test::random_plan(random, graph, mesh));
      Program program = before;
      write_in_place(program, {});
      const std::vector<int64_t> were = peak_bytes(before, {});
      std::vector<int64_t> peaks = peak_bytes(program, {});
      for (int w = 0; w < program.num_workers; ++w) {
        EXPECT_LE(peaks[w], were[w]);
        lower_peaks += peaks[w] < were[w];
        for (const bool backward : {false, true}) {
          begun += check(program, w, program.workers[w].list(backward));
        }
      }
      EXPECT_EQ(moved_bytes(program, true, true), moved_bytes(before, true, true));
      overlap(program, {});
      EXPECT_EQ(peak_bytes(program, {}), peaks);
      test::Runner(program, random).run();
      write_apart(program);
      wait_at_once(program);
      EXPECT_EQ(program.str(), before.str());
      EXPECT_EQ(peak_bytes(program, {}), were);
    }
  }
  EXPECT_GT(begun, 100);
  EXPECT_GT(lower_peaks, 10);
}

TEST(WriteInPlace, IsForOperatorsThatWriteIntoATensor) {
  EXPECT_TRUE(writes_into("aten::mm"));
  EXPECT_FALSE(writes_into("aten::relu"));  // which torch copies
  std::mt19937 random(8);
  const Graph graph = test::training_graph(6, 9, 4);
  for (int round = 0; round < 20; ++round) {
    const Plan plan = test::random_plan(random, graph, {2});
    Program program = lower(graph, plan, {{}, /*join=*/false, /*overlap=*/false});
    write_in_place(program, {});  // of operators that have no such names
    EXPECT_EQ(check(program, 0, program.workers[0].forward), 0);
  }
}

}  // namespace
}  // namespace smex
