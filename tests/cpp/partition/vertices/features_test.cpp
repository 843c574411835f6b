#include "partition/vertices/features.h"

#include <gtest/gtest.h>

namespace smex {
namespace {

TEST(VertexFeatures, AreThoseOfRocsTable) {
  // Of vertex 0 the neighbours 3, 1, 4, 8 and 6: runs 1, 3 to 4, 6 and 8. Vertex 1 has none, and
  // vertex 2 has twenty in a run, one of them by two edges.
  std::vector<int64_t> neighbours{3, 1, 4, 8, 6};
  for (int64_t u = 10; u < 30; ++u) neighbours.push_back(u);
  neighbours.push_back(29);
  const tdl::Table bounds({0, 5, 5, 26}), sources(neighbours);
  const FeatureSums sums(EdgeWalk{0, nullptr, 0, &bounds, &sources, /*width=*/24});
  EXPECT_EQ(sums.rows(), 3);
  EXPECT_EQ(sums.of(0, 1), (VertexFeatures{1, 5, 4, 4, 2 + 3 + 2 + 2, 10, 10, 10}));
  EXPECT_EQ(sums.of(1, 2), (VertexFeatures{1}));
  EXPECT_EQ(sums.of(2, 3), (VertexFeatures{1, 21, 1, 2, 30, 40, 40, 40}));
  EXPECT_EQ(sums.of(0, 3), (VertexFeatures{3, 26, 5, 6, 39, 50, 50, 50}));
  EXPECT_EQ(sums.weighted({1, 10, 0, 0, 0.5}), (std::vector<double>{0, 55.5, 56.5, 282.5}));
}

TEST(VertexFeatures, TellWhatMissesCaches) {
  // Rows of 64 KiB: four are in the smallest cache. Of the second vertex's neighbours 4 and 2 are
  // there, 0 has left for 4 to come; of the third's, which read five rows in turn, none are.
  const tdl::Table bounds({0, 5, 8, 13}), sources({0, 1, 2, 3, 4, 4, 2, 0, 1, 2, 3, 4, 0});
  const FeatureSums sums(EdgeWalk{0, nullptr, 0, &bounds, &sources, /*width=*/1 << 14});
  const double row = 1 << 10;
  const auto misses = [&](int64_t vertex) {
    const VertexFeatures found = sums.of(vertex, vertex + 1);
    return std::vector<double>(found.begin() + kRocFeatures, found.end());
  };
  EXPECT_EQ(misses(0), (std::vector<double>{5 * row, 5 * row, 5 * row}));
  EXPECT_EQ(misses(1), (std::vector<double>{1 * row, 0, 0}));
  EXPECT_EQ(misses(2), (std::vector<double>{5 * row, 0, 0}));
}

TEST(VertexFeatures, WithoutSourcesHaveRunsOfOne) {
  const tdl::Table bounds({0, 3});
  const FeatureSums sums(EdgeWalk{0, nullptr, 0, &bounds, nullptr, 1});
  EXPECT_EQ(sums.of(0, 1), (VertexFeatures{1, 3, 3, 3, 3}));
}

}  // namespace
}  // namespace smex
