#include "partition/search/meshes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace smex {
namespace {

using Meshes = std::vector<Mesh>;

TEST(Products, AreAllOrdersOfAllFactors) {
  EXPECT_EQ(products(12, 100),
            (Meshes{{3, 2, 2}, {2, 3, 2}, {2, 2, 3}, {6, 2}, {4, 3}, {3, 4}, {2, 6}, {12}}));
  EXPECT_EQ(products(7, 100), Meshes{{7}});
  EXPECT_EQ(products(1, 100), Meshes{});
  for (const int number : {64, 90, 720}) {
    const Meshes all = products(number, 100'000);
    for (const Mesh& mesh : all) EXPECT_EQ(mesh_size(mesh), number);
    Meshes unique = all;
    std::sort(unique.begin(), unique.end());
    unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
    EXPECT_EQ(unique.size(), all.size());
    // Of 2^6 there are as many as ways to put bars between six twos.
    if (number == 64) {
      EXPECT_EQ(all.size(), 32);
    }
  }
}

TEST(Products, StopAtTheMostAndLeaveOutTheKnown) {
  EXPECT_EQ(products(12, 3, {{2, 3, 2}}), (Meshes{{3, 2, 2}, {2, 2, 3}, {6, 2}}));
  EXPECT_EQ(products(12, 0), Meshes{});
  EXPECT_EQ(products(1 << 30, 2).size(), 2) << "without making the others";
}

TEST(LongerSteps, AreOneOfAllWorkersAndOneForEachLevel) {
  SearchOptions options;
  EXPECT_EQ(longer_steps({2, 2, 2}, options), Meshes{{8}});
  EXPECT_EQ(longer_steps({8}, options), Meshes{});
  EXPECT_EQ(longer_steps({}, options), Meshes{});
  options.machine = Cluster{"nodes", {{}, 1, 0}, {{8, {}}, {4, {}}}};
  EXPECT_EQ(longer_steps({2, 2, 2, 2}, options), Meshes{{16}}) << "bytes are the same everywhere";
  options.objective = Objective::kTime;
  EXPECT_EQ(longer_steps({2, 2, 2, 2}, options), (Meshes{{16}, {2, 8}}));
  EXPECT_EQ(longer_steps({2, 2, 2}, options), Meshes{{8}}) << "a node has so many";
  EXPECT_EQ(longer_steps({2, 8}, options), Meshes{{16}});
}

}  // namespace
}  // namespace smex
