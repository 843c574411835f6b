#include "partition/plan/grid.h"

#include <gtest/gtest.h>

#include <numeric>

#include "../graphs.h"

namespace smex {
namespace {

int product(const std::vector<int>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 1, std::multiplies<>());
}

class Grids : public testing::TestWithParam<Mesh> {};

/// What a plan moves, counted worker by worker and by the products of dimensions.
void expect_equal_costs(const Graph& graph, const Plan& plan) {
  const DimClasses classes(graph);
  OpGrids grids(graph, classes);
  for (const Op& op : graph.ops()) {
    const OpTiles tiles = op_tiles(graph, classes, plan, op, plan.ops[op.id]);
    const std::vector<bool> weighing = weighing_outputs(op);
    const OpGrid grid = grids.make(op, plan.ops[op.id], plan.mesh);
    const auto home_of = [&](ValueId id) {
      return home_grid(graph.value(id).shape, classes.grains(id), plan.values[id], plan.mesh);
    };
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const ValueId input = op.inputs[i];
      const Layout home = home_layout(graph, classes, plan, input);
      if (op.spec->table(static_cast<int>(i)) && !tiles.whole) {
        EXPECT_FALSE(grid.inputs[i]);
        continue;
      }
      ASSERT_TRUE(grid.inputs[i]);
      EXPECT_EQ(moved_numel(home_of(input), *grid.inputs[i], plan.mesh),
                relayout_numel(home, needed_tiles(tiles, i, home)))
          << graph.str() << "input " << i << " of op " << op.id;
    }
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      const ValueId output = op.outputs[o];
      const Layout home = home_layout(graph, classes, plan, output);
      EXPECT_EQ(product(grid.outputs[o]->addends), tiles.outputs[o].num_partials);
      EXPECT_EQ(stored_numel(*grid.outputs[o], home_of(output), plan.mesh, weighing[o]),
                store_bytes(tiles.outputs[o], home, /*itemsize=*/1, weighing[o]))
          << graph.str() << "output " << o << " of op " << op.id;
      int64_t largest = 0;
      for (const Tile& tile : tiles.outputs[o].tiles) {
        if (tile.held) largest = std::max(largest, tile.region.numel());
      }
      if (grid.outputs[o]->present.empty()) {
        EXPECT_EQ(largest_numel(*grid.outputs[o]), largest);
      }
    }
  }
}

TEST_P(Grids, CostWhatTheLayoutsOfAllWorkersCost) {
  std::mt19937 random(7);
  const auto size = [&](int64_t least) { return least + static_cast<int64_t>(random() % 9); };
  for (int round = 0; round < 60; ++round) {
    // Sizes below the number of workers leave some of them without a part.
    const int64_t least = round % 3 == 0 ? 1 : 9;
    for (const Graph& graph : {test::linear_graph(size(least), size(least), size(least)),
                               test::training_graph(size(least), size(least), size(least)),
                               test::mixed_graph(size(least), size(least)),
                               test::attention_graph(size(least), size(least), size(least)),
                               test::deep_graph(size(least), size(least), size(least)),
                               test::messages_graph(random, size(least), size(least))}) {
      expect_equal_costs(graph, test::random_plan(random, graph, GetParam()));
    }
  }
}

TEST_P(Grids, OfGivenPartsCostWhatTheLayoutsOfAllWorkersCost) {
  std::mt19937 random(9);
  for (int round = 0; round < 60; ++round) {
    const Graph even = test::messages_graph(random, 4 + static_cast<int64_t>(random() % 20), 9);
    const Graph graph = test::cut_anywhere(random, even, mesh_size(GetParam()));
    expect_equal_costs(graph, test::random_plan(random, graph, GetParam()));
  }
}

TEST_P(Grids, OfWeightedCutsCostWhatTheLayoutsOfAllWorkersCost) {
  std::mt19937 random(11);
  const auto size = [&] { return 1 + static_cast<int64_t>(random() % 17); };
  for (int round = 0; round < 20; ++round) {
    for (Graph graph :
         {test::linear_graph(size(), size(), size()), test::training_graph(size(), size(), size()),
          test::mixed_graph(size(), size()), test::attention_graph(size(), size(), size()),
          test::deep_graph(size(), size(), size()), test::messages_graph(random, size(), size())}) {
      test::weigh(random, mesh_size(GetParam()), graph);
      Plan plan = test::random_plan(random, graph, GetParam());
      test::weigh_choices(random, plan);
      expect_equal_costs(graph, plan);
    }
  }
}

TEST_P(Grids, AreTheLayoutsOfHomes) {
  std::mt19937 random(8);
  for (int round = 0; round < 40; ++round) {
    const Graph graph = test::training_graph(1 + random() % 12, 1 + random() % 12, 3);
    const DimClasses classes(graph);
    const Plan plan = test::random_plan(random, graph, GetParam());
    for (const Value& value : graph.values()) {
      const Layout home = home_layout(graph, classes, plan, value.id);
      const Layout found = home_grid(value.shape, std::vector<Grain>(value.shape.size()),
                                     plan.values[value.id], plan.mesh)
                               .layout(plan.mesh);
      for (size_t w = 0; w < home.tiles.size(); ++w) {
        ASSERT_EQ(found.tiles[w].held, home.tiles[w].held);
        if (home.tiles[w].held) {
          EXPECT_EQ(found.tiles[w].region, home.tiles[w].region);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, Grids,
                         testing::Values(Mesh{2}, Mesh{3}, Mesh{2, 2}, Mesh{3, 2}, Mesh{2, 2, 2},
                                         Mesh{5, 3}, Mesh{2, 1, 3}));

}  // namespace
}  // namespace smex
