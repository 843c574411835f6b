#include "partition/vertices/ranges.h"

#include <algorithm>
#include <limits>
#include <string>

#include "ir/error.h"

namespace smex {
namespace {

class Ranges {
 public:
  Ranges(const std::vector<double>& sums, const std::vector<RangeWorker>& workers)
      : sums_(sums), workers_(workers), vertices_(static_cast<int64_t>(sums.size()) - 1) {}

  double seconds(size_t worker, int64_t begin, int64_t end) const {
    if (begin == end) return 0;
    return (sums_[end] - sums_[begin]) / workers_[worker].speed + workers_[worker].offset;
  }

  /// The furthest end that a worker reaches in time.
  int64_t furthest(size_t worker, int64_t begin, double limit) const {
    return last_of(begin, vertices_,
                   [&](int64_t end) { return seconds(worker, begin, end) <= limit; });
  }

  /// Whether a worker and those after it do the rest in time.
  bool suffices(size_t worker, int64_t begin, double limit) const {
    for (; worker < workers_.size() && begin < vertices_; ++worker) {
      begin = furthest(worker, begin, limit);
    }
    return begin == vertices_;
  }

  /// The least seconds that suffice. The worker that is last to end begins where those before it
  /// are one vertex short of having too much; whichever it is, its seconds are tried.
  double least() const {
    double best = std::numeric_limits<double>::infinity();
    int64_t begin = 0;
    for (size_t worker = 0; worker < workers_.size(); ++worker) {
      // Of all ends with which its own seconds suffice for the others the nearest.
      const int64_t below = last_of(begin - 1, vertices_, [&](int64_t end) {
        return end < begin || !suffices(worker, begin, seconds(worker, begin, end));
      });
      best = std::min(best, seconds(worker, begin, below + 1));
      begin = std::max(begin, below);
    }
    return best;
  }

 private:
  /// The last of [first, last] for which it holds, as it does for `first`.
  template <typename Holds>
  static int64_t last_of(int64_t first, int64_t last, const Holds& holds) {
    while (first < last) {
      const int64_t middle = first + (last - first + 1) / 2;
      if (holds(middle)) {
        first = middle;
      } else {
        last = middle - 1;
      }
    }
    return first;
  }

  const std::vector<double>& sums_;
  const std::vector<RangeWorker>& workers_;
  const int64_t vertices_;
};

void check(const std::vector<double>& sums, const std::vector<RangeWorker>& workers) {
  if (sums.empty() || workers.empty() || !std::is_sorted(sums.begin(), sums.end())) {
    throw UserError("ranges: expected sums that ascend and a worker, found " +
                    std::to_string(sums.size()) + " sums, " + std::to_string(workers.size()) +
                    " workers");
  }
  for (const RangeWorker& worker : workers) {
    if (!(worker.speed > 0) || !(worker.offset >= 0)) {
      throw UserError("ranges: expected speeds above 0 and no offset below, found " +
                      std::to_string(worker.speed) + " and " + std::to_string(worker.offset));
    }
  }
}

}  // namespace

std::vector<int64_t> min_max_ranges(const std::vector<double>& sums,
                                    const std::vector<RangeWorker>& workers) {
  check(sums, workers);
  const Ranges ranges(sums, workers);
  const double limit = ranges.least();
  std::vector<int64_t> ends{0};
  for (size_t worker = 0; worker < workers.size(); ++worker) {
    ends.push_back(ranges.furthest(worker, ends.back(), limit));
  }
  return ends;
}

double range_seconds(const std::vector<double>& sums, const std::vector<RangeWorker>& workers,
                     const std::vector<int64_t>& ends) {
  check(sums, workers);
  const Ranges ranges(sums, workers);
  double seconds = 0;
  for (size_t worker = 0; worker < workers.size(); ++worker) {
    seconds = std::max(seconds, ranges.seconds(worker, ends[worker], ends[worker + 1]));
  }
  return seconds;
}

}  // namespace smex
