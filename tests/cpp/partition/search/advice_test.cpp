#include "partition/search/advice.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "../graphs.h"
#include "stages.h"

namespace smex {
namespace {

/// The sum of three products of a small input with large weights.
struct Weights {
  Weights() {
    const ValueId x = b.input({2, 64});
    for (int n = 0; n < 3; ++n) weights.push_back(b.input({64, 64}, Role::kParameter));
    ValueId sum = b.mm(x, weights[0]);
    for (int n = 1; n < 3; ++n) sum = b.add(sum, b.mm(x, weights[n]));
    b.output(sum);
  }

  double peak(const std::vector<Pin>& pins) const {
    const Request request{{2}, test::all_cut(), pins, {}};
    FoundPlan found = Solver(b.graph, request).search(pins);
    return Solver(b.graph, request).peak(found);
  }

  test::Builder b;
  std::vector<ValueId> weights;
};

TEST(ConflictingPins, AreTheFewest) {
  const Weights graph;
  const Pin first{graph.weights[0], {kReplicate}}, second{graph.weights[1], {kReplicate}};
  const Pin cut{graph.weights[2], {0}};
  Request request{{2}, test::all_cut(), {cut, first, second}, {}};
  const Solver solver(graph.b.graph, request);
  const double one = std::max(graph.peak({cut, first}), graph.peak({cut, second}));
  const double both = graph.peak({first, second});
  ASSERT_LT(one, both);
  request.options.memory_limit = (one + both) / 2;
  EXPECT_EQ(conflicting_pins(solver), (std::vector<size_t>{1, 2}));
  request.options.memory_limit = (graph.peak({cut}) + one) / 2;
  EXPECT_EQ(conflicting_pins(solver), (std::vector<size_t>{1})) << "replicas of one are too many";
  request.options.memory_limit = 1;
  EXPECT_TRUE(conflicting_pins(solver).empty()) << "nothing fits without pins either";
}

TEST(ConflictingPins, AreNoneWithoutPins) {
  const Weights graph;
  Request request{{2}, test::all_cut(), {}, {}};
  request.options.memory_limit = 1;
  EXPECT_TRUE(conflicting_pins(Solver(graph.b.graph, request)).empty());
}

TEST(EnoughWorkers, KeepToTheLimit) {
  const Weights graph;
  Request request{{2}, test::all_cut(), {}, {}};
  FoundPlan least = Solver(graph.b.graph, request).search({});
  const auto enough = [&](double part) {
    request.options.memory_limit = part * graph.peak({});
    return enough_workers(Solver(graph.b.graph, request), least);
  };
  const auto some = enough(0.4);
  ASSERT_TRUE(some);
  ASSERT_GT(*some, 2);
  request.mesh = factorise(*some);
  FoundPlan found = Solver(graph.b.graph, request).search({});
  EXPECT_LE(Solver(graph.b.graph, request).peak(found), *request.options.memory_limit);
  request.mesh = {2};
  EXPECT_EQ(enough(1e-9), std::nullopt) << "too many to try";
  request.options.machine = Cluster{"two", {{{4, 1}}, 1, 0}, {{2, {}}}};
  EXPECT_EQ(enough(0.4), std::nullopt) << "the machine has not so many";
  request.options.machine.reset();
  request.shards[0] = {};
  EXPECT_EQ(enough(0.4), std::nullopt) << "shards are for the workers that there are";
}

}  // namespace
}  // namespace smex
