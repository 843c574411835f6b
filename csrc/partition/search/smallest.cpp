#include "partition/search/smallest.h"

#include <cmath>
#include <map>

#include "partition/search/minimise/within_limits.h"

namespace smex {

namespace {

constexpr double kRounding = 1e-9;  // relative
constexpr int kRounds = 16;         // in which the peak becomes less
constexpr int kSolves = 32;         // of a branch and bound

using Weights = std::map<int, std::vector<double>>;  ///< by variable of the problem and choice

double sum_of(const Weights& weights, const std::vector<int>& choices) {
  double sum = 0;
  for (const auto& [variable, bytes] : weights) sum += bytes[choices[variable]];
  return sum;
}

class Smallest {
 public:
  Smallest(const Optima& optima, const HomeMemory& memory, std::vector<int> first)
      : optima_(optima), memory_(memory), best_(std::move(first)) {
    for (size_t n = 0; n < optima.open.size(); ++n) number_[optima.open[n]] = static_cast<int>(n);
  }

  std::vector<int> run() {
    if (!memory_.varies()) return best_;
    const auto heaviest = memory_.worst(best_, 0);
    if (!heaviest) return best_;
    peak_ = heaviest->sum(best_);
    const FactorGraph there = with(heaviest->weights);
    take(minimise(there));
    const double least = sum_of(heaviest->weights, best_at_);
    for (int round = 0; round < kRounds && peak_ > least * (1 + kRounding); ++round) {
      const WithinLimits found = within(there, peak_ * (1 - kRounding));
      if (!found.fits) break;
      take(found.best);
    }
    const FactorGraph in_all = with(memory_.all());
    const Assignment found = minimise(in_all);
    if (take(found)) return best_;
    const WithinLimits limited = within(in_all, peak_);
    if (limited.fits) take(limited.best);
    return best_;
  }

 private:
  /// Keeps what takes no more than the best so far at the peak.
  bool take(const Assignment& found) {
    best_at_ = whole(found.choices);
    const auto worst = memory_.worst(best_at_, 0);
    const double peak = worst ? worst->sum(best_at_) : 0;
    if (found.value >= kForbidden || peak > peak_) return false;
    best_ = best_at_;
    peak_ = peak;
    return true;
  }

  /// The choices of all variables.
  std::vector<int> whole(const std::vector<int>& open) const {
    std::vector<int> choices = best_;
    for (size_t n = 0; n < open.size(); ++n) choices[optima_.open[n]] = open[n];
    return choices;
  }

  /// The weights of open variables; what all others weigh is added to the first one's.
  Weights of_open(const Weights& weights) const {
    Weights open;
    double rest = 0;
    for (const auto& [variable, bytes] : weights) {
      const auto it = number_.find(variable);
      if (it == number_.end()) {
        rest += bytes.front();
      } else {
        open[it->second] = bytes;
      }
    }
    std::vector<double>& first = open[0];
    first.resize(optima_.choices.front().size(), 0);
    for (double& bytes : first) bytes += rest;
    return open;
  }

  /// What the least costs allow, and weights to be minimised.
  FactorGraph with(const Weights& weights) const {
    FactorGraph graph = optima_.graph;
    for (auto& [variable, bytes] : of_open(weights)) graph.factors.push_back({{variable}, bytes});
    return graph;
  }

  WithinLimits within(const FactorGraph& graph, double bound) const {
    const WorstLimit worst = [&](const std::vector<int>& open) {
      std::optional<Limit> limit = memory_.worst(whole(open), bound);
      if (limit) limit->weights = of_open(limit->weights);
      return limit;
    };
    return minimise_within(graph, worst, int64_t{1} << 22, kSolves);
  }

  const Optima& optima_;
  const HomeMemory& memory_;
  std::map<int, int> number_;  ///< of open variables
  std::vector<int> best_;
  std::vector<int> best_at_;  ///< what was considered last
  double peak_ = 0;           ///< of best_
};

}  // namespace

bool HomeSize::less_than(const HomeSize& other) const {
  if (std::fabs(peak - other.peak) > kRounding * other.peak) return peak < other.peak;
  return tiles < other.tiles * (1 - kRounding);
}

HomeSize home_size(const HomeMemory& memory, const std::vector<int>& choices) {
  const auto worst = memory.worst(choices, 0);
  return {worst ? worst->sum(choices) : 0, sum_of(memory.all(), choices)};
}

std::vector<int> smallest(const Optima& optima, const HomeMemory& memory, std::vector<int> first) {
  return Smallest(optima, memory, std::move(first)).run();
}

}  // namespace smex
