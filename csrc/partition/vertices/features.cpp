#include "partition/vertices/features.h"

#include <algorithm>

namespace smex {
namespace {

constexpr int64_t kBlock = 16;

double blocks(int64_t numbers) { return static_cast<double>((numbers + kBlock - 1) / kBlock); }

class FeaturesOf {
 public:
  explicit FeaturesOf(const EdgeWalk& walk) : walk_(walk) {}

  VertexFeatures at(int64_t row) {
    const int64_t begin = (*walk_.bounds)[row], end = (*walk_.bounds)[row + 1];
    VertexFeatures features{1, static_cast<double>(end - begin), 0, 0, 0};
    const auto add_run = [&](int64_t length) {
      features[2] += 1;
      features[3] += blocks(length);
      features[4] += blocks(length * walk_.width);
    };
    if (!walk_.sources) {
      for (int64_t place = begin; place < end; ++place) add_run(1);
      return features;
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
