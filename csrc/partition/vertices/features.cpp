#include "partition/vertices/features.h"

#include <algorithm>

namespace smex {
namespace {

constexpr int64_t kBlock = 16;

double blocks(int64_t numbers) { return static_cast<double>((numbers + kBlock - 1) / kBlock); }

/// The rows that were read last, as many as there is room for; what came first leaves first.
class Cache {
 public:
  Cache(int64_t capacity, int64_t rows) : capacity_(capacity), came_(rows, kNever) {}

  /// Whether the row was not there; now it is.
  bool misses(int64_t row) {
    if (came_[row] != kNever && count_ - came_[row] < capacity_) return false;
    came_[row] = ++count_;
    return true;
  }

 private:
  static constexpr int64_t kNever = -1;
  const int64_t capacity_;
  int64_t count_ = 0;          ///< of rows that came
  std::vector<int64_t> came_;  ///< by row the count then
};

class FeaturesOf {
 public:
  explicit FeaturesOf(const EdgeWalk& walk) : walk_(walk) {
    if (!walk.sources) return;
    int64_t rows = 0;
    for (int64_t place = 0; place < walk.sources->size(); ++place) {
      rows = std::max(rows, (*walk.sources)[place] + 1);
    }
    const int64_t row_bytes = static_cast<int64_t>(blocks(walk.width)) * kBlock * 4;
    for (const int64_t bytes : kCacheBytes) caches_.emplace_back(bytes / row_bytes, rows);
  }

  VertexFeatures at(int64_t row) {
    const int64_t begin = (*walk_.bounds)[row], end = (*walk_.bounds)[row + 1];
    VertexFeatures features{1, static_cast<double>(end - begin)};
    const auto add_run = [&](int64_t length) {
      features[2] += 1;
      features[3] += blocks(length);
      features[4] += blocks(length * walk_.width);
    };
    if (!walk_.sources) {
      for (int64_t place = begin; place < end; ++place) add_run(1);
      return features;
    }
    for (int64_t place = begin; place < end; ++place) {
      for (size_t n = 0; n < caches_.size(); ++n) {
        const bool misses = caches_[n].misses((*walk_.sources)[place]);
        features[kRocFeatures + n] += misses ? blocks(walk_.width) : 0;
      }
    }
    read(begin, end);
    int64_t length = 0;
    for (size_t n = 0; n < neighbours_.size(); ++n) {
      const int64_t step = n == 0 ? 2 : neighbours_[n] - neighbours_[n - 1];
      if (step > 1 && length > 0) add_run(length);
      if (step > 1) length = 0;
      length += step > 0 || n == 0;  // a neighbour by several edges counts once
    }
    if (length > 0) add_run(length);
    return features;
  }

 private:
  void read(int64_t begin, int64_t end) {
    neighbours_.clear();
    for (int64_t place = begin; place < end; ++place) {
      neighbours_.push_back((*walk_.sources)[place]);
    }
    if (!std::is_sorted(neighbours_.begin(), neighbours_.end())) {
      std::sort(neighbours_.begin(), neighbours_.end());
    }
  }

  const EdgeWalk& walk_;
  std::vector<Cache> caches_;
  std::vector<int64_t> neighbours_;
};

}  // namespace

FeatureSums::FeatureSums(const EdgeWalk& walk) {
  FeaturesOf features(walk);
  sums_.resize(walk.rows() + 1);
  for (int64_t row = 0; row < walk.rows(); ++row) {
    const VertexFeatures own = features.at(row);
    for (size_t n = 0; n < kVertexFeatures; ++n) sums_[row + 1][n] = sums_[row][n] + own[n];
  }
}

VertexFeatures FeatureSums::of(int64_t begin, int64_t end) const {
  VertexFeatures found;
  for (size_t n = 0; n < kVertexFeatures; ++n) found[n] = sums_[end][n] - sums_[begin][n];
  return found;
}

std::vector<double> FeatureSums::weighted(const VertexFeatures& weights) const {
  std::vector<double> sums;
  sums.reserve(sums_.size());
  for (const VertexFeatures& before : sums_) {
    double sum = 0;
    for (size_t n = 0; n < kVertexFeatures; ++n) sum += weights[n] * before[n];
    sums.push_back(sum);
  }
  return sums;
}

}  // namespace smex
