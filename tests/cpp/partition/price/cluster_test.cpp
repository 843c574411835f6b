#include "partition/price/cluster.h"

#include <gtest/gtest.h>

#include <limits>

#include "ir/error.h"

namespace smex {
namespace {

/// `nodes` nodes of 8 workers.
Cluster nodes(int64_t nodes) {
  return {"nodes", {{{4, 1e12}}, 1e9, 1e-6}, {{8, {1e-6, 400}}, {nodes, {2e-6, 50}}}};
}

TEST(Cluster, AStepHasTheSlowestLinkBetweenItsParts) {
  using Levels = std::vector<size_t>;
  EXPECT_EQ(nodes(4).levels_of({2, 2, 2, 2, 2}), (Levels{1, 1, 0, 0, 0}));
  EXPECT_EQ(nodes(4).levels_of({2, 4}), (Levels{0, 0}));
  EXPECT_EQ(nodes(4).levels_of({3, 5}), (Levels{1, 0}));
  EXPECT_EQ(nodes(4).levels_of({}), Levels{});
  EXPECT_EQ(nodes(4).on({4, 8}).links[0].bandwidth, 50);
  EXPECT_EQ(nodes(4).on({4, 8}).links[1].bandwidth, 400);
}

TEST(Cluster, RefusesMoreWorkersThanItHas) {
  EXPECT_EQ(nodes(4).workers(), 32);
  EXPECT_THROW(nodes(4).on({64}), UserError);
  const Cluster huge{"huge", {{}, 1, 0}, std::vector<Level>(5, {int64_t{1} << 31, {}})};
  EXPECT_EQ(huge.workers(), std::numeric_limits<int64_t>::max());
}

TEST(Cluster, FillsItsLevelsAsFarAsTheNumberDivides) {
  EXPECT_EQ(nodes(4).mesh(32), (Mesh{4, 8}));
  EXPECT_EQ(nodes(4).mesh(12), (Mesh{2, 6}));
  EXPECT_EQ(nodes(4).mesh(8), (Mesh{8}));
  EXPECT_EQ(nodes(4).mesh(1), Mesh{});
  EXPECT_EQ(nodes(4).mesh(64), std::nullopt);
  EXPECT_EQ(nodes(4).mesh(11), std::nullopt) << "a prime number";
  EXPECT_EQ(nodes(4).mesh(0), std::nullopt);
}

}  // namespace
}  // namespace smex
