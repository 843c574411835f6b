#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "partition/vertices/boundaries.h"

namespace smex {

/// Caches that are told apart: 256 KiB, 4 MiB and 64 MiB of rows.
inline constexpr std::array<int64_t, 3> kCacheBytes{1 << 18, 1 << 22, 1 << 26};
inline constexpr size_t kRocFeatures = 5, kVertexFeatures = kRocFeatures + kCacheBytes.size();
using VertexFeatures = std::array<double, kVertexFeatures>;

/// What the seconds of a walk are told from: ROC's five features of a vertex (Jia et al. 2020,
/// Table 2), summed up over ranges. One; its neighbours; its runs of neighbours with consecutive
/// numbers; the blocks of memory that the runs' numbers take, and those that their features take.
/// A block is a cache line of 16 floats, where ROC has the 32 threads of a warp.
///
/// Then by cache the blocks of neighbours' features that are not in it any more, where what is read
/// first leaves first: the same neighbours take longer in a graph whose features do not fit.
class FeatureSums {
 public:
  /// Reads all edges once. A walk without sources has runs of one.
  explicit FeatureSums(const EdgeWalk& walk);
  int64_t rows() const { return static_cast<int64_t>(sums_.size()) - 1; }
  /// Of the vertices in [begin, end).
  VertexFeatures of(int64_t begin, int64_t end) const;
  /// By vertex and one more the sum over all before it of the features, each times its weight.
  std::vector<double> weighted(const VertexFeatures& weights) const;

 private:
  std::vector<VertexFeatures> sums_;  ///< of all vertices before
};

}  // namespace smex
