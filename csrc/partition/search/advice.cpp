#include "partition/search/advice.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace smex {

namespace {

constexpr double kSubsets = 50;  // of pins of one size that are searched for the fewest
constexpr double kTriedWorkers = 512;
constexpr double kTriedCalls = 500'000;  // of all workers

double binomial(size_t of, size_t size) {
  double ways = 1;
  for (size_t i = 0; i < size; ++i) ways = ways * static_cast<double>(of - i) / (i + 1.0);
  return ways;
}

/// The next choice of as many numbers below `of`, in lexicographic order; false after the last.
bool next_subset(std::vector<size_t>& numbers, size_t of) {
  const size_t size = numbers.size();
  for (size_t i = size; i-- > 0;) {
    if (numbers[i] == of - size + i) continue;
    std::iota(numbers.begin() + static_cast<std::ptrdiff_t>(i), numbers.end(), numbers[i] + 1);
    return true;
  }
  return false;
}

}  // namespace

std::vector<size_t> conflicting_pins(const Solver& solver) {
  const std::vector<Pin>& pins = solver.request().pins;
  const auto fits = [&](const std::vector<size_t>& numbers) {
    std::vector<Pin> some;
    for (size_t number : numbers) some.push_back(pins[number]);
    return solver.fits(some);
  };
  if (pins.empty() || !fits({})) return {};
  for (size_t size = 1; size < pins.size() && binomial(pins.size(), size) <= kSubsets; ++size) {
    std::vector<size_t> some(size);
    std::iota(some.begin(), some.end(), size_t{0});
    do {
      if (!fits(some)) return some;
    } while (next_subset(some, pins.size()));
  }
  std::vector<size_t> kept(pins.size());
  std::iota(kept.begin(), kept.end(), size_t{0});
  for (size_t number = 0; number < pins.size(); ++number) {
    std::vector<size_t> fewer = kept;
    fewer.erase(std::find(fewer.begin(), fewer.end(), number));
    if (!fits(fewer)) kept = std::move(fewer);
  }
  return kept;
}

std::optional<int> enough_workers(const Solver& solver, FoundPlan& least) {
  Request more = solver.request();
  if (!more.shards.empty()) return std::nullopt;
  const double limit = *more.options.memory_limit;
  const double doublings = std::ceil(std::log2(solver.peak(least) / limit));
  const double times = std::exp2(std::max(0.0, doublings));
  const double should_do = mesh_size(least.plan.mesh) * times;
  for (const double workers : {should_do, 2 * should_do, 4 * should_do}) {
    const auto calls = static_cast<double>(solver.graph().ops().size());
    if (workers > kTriedWorkers || workers * calls > kTriedCalls) return std::nullopt;
    if (more.options.machine && more.options.machine->workers() < workers) return std::nullopt;
    more.mesh = factorise(static_cast<int>(workers));
    more.options.replicate_bytes = 0;
    const Solver larger(solver.graph(), more);
    FoundPlan found = larger.search({});
    if (larger.keeps(found)) return static_cast<int>(workers);
  }
  return 0;
}

}  // namespace smex
