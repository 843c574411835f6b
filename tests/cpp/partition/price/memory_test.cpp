#include "partition/price/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "../graphs.h"
#include "partition/lower/lower.h"
#include "partition/lower/residency.h"
#include "partition/search/search.h"

namespace smex {
namespace {

int64_t tile_bytes(const Graph& graph, const DimClasses& classes, const Plan& plan, ValueId id) {
  int64_t largest = 0;
  for (const Tile& tile : home_layout(graph, classes, plan, id).tiles) {
    if (tile.held) largest = std::max(largest, tile.region.numel());
  }
  return largest * graph.value(id).itemsize;
}

bool is_live(const Graph& graph, const Value& value, OpId at) {
  if (value.producer > at) return false;
  if (value.role == Role::kParameter || value.producer == at) return true;
  for (const GraphOutput& output : graph.outputs()) {
    if (output.value == value.id) return true;
  }
  for (const Op& op : graph.ops()) {
    const bool reads = std::find(op.inputs.begin(), op.inputs.end(), value.id) != op.inputs.end();
    if (reads && op.id >= at) return true;
  }
  return value.producer < 0 && at == 0;  // nobody reads it
}

TEST(HeaviestPoint, IsWhereTheTilesOfWhatLivesAreMost) {
  std::mt19937 random(5);
  for (int round = 0; round < 30; ++round) {
    for (const Graph& graph : {test::linear_graph(8, 9, 10), test::training_graph(9, 8, 12),
                               test::deep_graph(8, 12, 9)}) {
      const DimClasses classes(graph);
      const Plan plan = test::random_plan(random, graph, {2, 2});
      int64_t most = 0;
      for (const Op& op : graph.ops()) {
        int64_t bytes = 0;
        for (const Value& value : graph.values()) {
          if (is_live(graph, value, op.id)) bytes += tile_bytes(graph, classes, plan, value.id);
        }
        most = std::max(most, bytes);
      }
      const MemoryPoint point = heaviest_point(graph, plan);
      EXPECT_EQ(point.bytes, most);
      int64_t live = 0;
      for (ValueId id : point.live) {
        EXPECT_TRUE(is_live(graph, graph.value(id), point.op));
        live += tile_bytes(graph, classes, plan, id);
      }
      EXPECT_EQ(live, most);
    }
  }
}

TEST(LeastPeak, IsBelowTheHomesOfAllPlans) {
  std::mt19937 random(6);
  for (const Graph& graph : {test::linear_graph(8, 9, 10), test::training_graph(9, 8, 12),
                             test::layers_graph(6, 5, 7, 2, /*checkpoints=*/true)}) {
    const int64_t alone = least_peak(graph, 1, {}, 0);
    EXPECT_LE(alone, peak_of_homes(graph, search(graph, {})));
    EXPECT_GT(alone, 0.99 * static_cast<double>(peak_of_homes(graph, search(graph, {}))) - 1);
    for (int round = 0; round < 20; ++round) {
      for (const Mesh& mesh : {Mesh{2}, Mesh{3}, Mesh{2, 2}}) {
        const Plan plan = test::random_plan(random, graph, mesh);
        EXPECT_LE(least_peak(graph, mesh_size(mesh), {}, 0), peak_of_homes(graph, plan));
      }
    }
    EXPECT_GT(least_peak(graph, 2, {}, 2), least_peak(graph, 2, {}, 0)) << "the optimiser's";
  }
}

TEST(PeakOfCalls, IsAboutThatOfTheProgram) {
  for (const Graph& graph : {test::linear_graph(16, 8, 12), test::training_graph(16, 8, 12),
                             test::mixed_graph(8, 8), test::deep_graph(8, 12, 16)}) {
    for (const Mesh& mesh : {Mesh{}, Mesh{2}, Mesh{4}, Mesh{2, 2}}) {
      for (const int64_t replicate_bytes : {int64_t{0}, int64_t{1} << 40}) {
        SearchOptions options;
        options.replicate_bytes = replicate_bytes;
        const Plan plan = search(graph, mesh, options);
        const std::vector<int64_t> lowered = peak_bytes(lower(graph, plan), {});
        const auto peak = static_cast<double>(*std::max_element(lowered.begin(), lowered.end()));
        const auto found = static_cast<double>(peak_of_calls(graph, plan));
        // The program counts what peers have still to fetch, which is much of so small a graph.
        EXPECT_LE(found, 1.01 * peak) << graph.str();
        EXPECT_GE(found, 0.7 * peak) << graph.str();
        EXPECT_GE(found, static_cast<double>(peak_of_homes(graph, plan)));
        if (mesh.empty()) EXPECT_EQ(found, peak) << graph.str();
      }
    }
  }
}

TEST(ParameterBytes, AreThoseOfTheLargestTiles) {
  const Graph graph = test::training_graph(8, 5, 6);
  std::mt19937 random(1);
  for (int round = 0; round < 10; ++round) {
    const DimClasses classes(graph);
    const Plan plan = test::random_plan(random, graph, {2, 2});
    EXPECT_EQ(parameter_bytes(graph, plan), tile_bytes(graph, classes, plan, 1)) << "one weight";
  }
}

TEST(Lifetimes, OfWhatIsMadeAgainAreTwo) {
  const Graph graph = test::layers_graph(5, 4, 6, 2, /*checkpoints=*/true);
  const std::vector<Lifetime> lives = lifetimes(graph, {});
  const Lifetime& hidden = lives[graph.op(3).outputs[0]];
  EXPECT_EQ(hidden.first, 3);
  EXPECT_EQ(hidden.last, 4);
  EXPECT_EQ(hidden.again, 6);
  EXPECT_EQ(graph.op(hidden.until).target, "add");
  EXPECT_TRUE(hidden.holds(4) && !hidden.holds(5) && hidden.holds(6));
  const Lifetime& kept = lives[graph.op(2).outputs[0]];
  EXPECT_EQ(kept.again, -1);
  EXPECT_GT(kept.last, 6) << "the input of the second layer, whose products run again";
}

TEST(Lifetimes, OfViewsAreThoseOfWhatTheyView) {
  test::Builder b;
  const ValueId x = b.input({4, 6}), w = b.input({6, 5});
  const ValueId made = b.mm(x, w), turned = b.transpose(made);
  b.output(b.sum_rows(b.mm(x, w)));
  b.output(turned);
  const auto own = lifetimes(b.graph, {}), shared = lifetimes(b.graph, {"t"});
  EXPECT_FALSE(own[turned].is_view);
  EXPECT_EQ(own[made].last, 1);
  EXPECT_TRUE(shared[turned].is_view);
  EXPECT_EQ(shared[made].last, own[turned].last);
}

}  // namespace
}  // namespace smex
