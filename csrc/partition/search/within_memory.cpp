#include "partition/search/within_memory.h"

#include <algorithm>

#include "partition/lower/lower.h"
#include "partition/price/memory.h"

namespace smex {

namespace {

constexpr size_t kAttempts = 12;  // to keep to a limit
/// Of a limit: what may be better for the first steps.
constexpr double kShares[] = {0.85, 0.7, 0.55, 0.4};
/// So far above the limit what calls hold tells that a plan is too large, where lowering it for its
/// peak takes long: for so many calls of all workers. What fused calls never make is counted.
constexpr double kFarAbove = 1.1;
constexpr size_t kLongToLower = size_t{1} << 16;
/// So many calls of all workers are not lowered: the peak is that of tensors' homes and each call.
constexpr size_t kTooLongToLower = size_t{1} << 20;
/// An attempt is made with less by at least this part of the limit.
constexpr double kLeastStep = 1.0 / 256;

}  // namespace

FoundPlan Solver::search(const std::vector<Pin>& pins, std::optional<double> limit) const {
  return search(pins, limit, request_.options.replicate_bytes);
}

FoundPlan Solver::search(const std::vector<Pin>& pins, std::optional<double> limit,
                         int64_t replicate_bytes) const {
  SearchOptions options = request_.options;
  options.memory_limit = limit;
  options.replicate_bytes = replicate_bytes;
  options.pinned.clear();
  for (const Pin& pin : pins) options.pinned[pin.value] = pin.placement;
  std::map<ValueId, std::vector<Tile>> tiles;
  for (const auto& [value, shards] : request_.shards) {
    options.pinned[value] = shards.placement;
    tiles[value] = shards.tiles;
  }
  FoundPlan found;
  found.plan = smex::search(graph_, request_.mesh, options);
  found.replicate_bytes = replicate_bytes;
  if (!tiles.empty()) keep_shards(graph_, tiles, found.plan);
  return found;
}

double Solver::cost(const FoundPlan& found) const {
  double seconds = 0;
  for (double step : found.plan.step_seconds) seconds += step;
  int64_t bytes = 0;
  for (int64_t step : found.plan.step_bytes) bytes += step;
  return request_.options.objective == Objective::kTime ? found.plan.compute_seconds + seconds
                                                        : static_cast<double>(bytes);
}

double Solver::peak(FoundPlan& found) const {
  if (!found.peak_bytes.empty()) return found.peak;
  const auto workers = static_cast<size_t>(mesh_size(found.plan.mesh));
  if (graph_.ops().size() * workers > kTooLongToLower) {
    found.peak_bytes.assign(workers, peak_of_calls(graph_, found.plan, request_.options.views));
  } else {
    found.program = std::make_unique<Program>(lower(graph_, found.plan, {request_.options.views}));
    found.peak_bytes = peak_bytes(*found.program, request_.options.views);
  }
  found.peak =
      static_cast<double>(*std::max_element(found.peak_bytes.begin(), found.peak_bytes.end()));
  const double states = request_.options.optimizer_states;
  if (states > 0) found.peak += states * static_cast<double>(parameter_bytes(graph_, found.plan));
  return found.peak;
}

/// The most bytes that are live in tensors' homes, by the largest tile of each. Sooner known than
/// the peak, which is at least about as much.
double Solver::homes(const FoundPlan& found) const {
  return static_cast<double>(peak_of_homes(graph_, found.plan, request_.options.views));
}

bool Solver::keeps(FoundPlan& found) const {
  const double limit = *request_.options.memory_limit;
  const size_t calls = graph_.ops().size() * static_cast<size_t>(mesh_size(found.plan.mesh));
  if (calls > kLongToLower && held(found) > kFarAbove * limit) return false;
  return peak(found) <= limit;
}

double Solver::held(const FoundPlan& found) const {
  const double states = request_.options.optimizer_states;
  const auto most = static_cast<double>(peak_of_calls(graph_, found.plan, request_.options.views));
  return most +
         (states > 0 ? states * static_cast<double>(parameter_bytes(graph_, found.plan)) : 0);
}

bool Solver::fits(const std::vector<Pin>& pins) const {
  FoundPlan free = search(pins);
  return keeps(free) || within_memory(pins, free);
}

std::optional<FoundPlan> Solver::within_memory(const std::vector<Pin>& pins, const FoundPlan& free,
                                               FoundPlan* least) const {
  const bool several = request_.mesh.size() > 1;
  const double memory = *request_.options.memory_limit;
  std::optional<FoundPlan> best;
  std::vector<FoundPlan> too_large;
  const auto reject = [&](FoundPlan found) {
    found.program.reset();
    too_large.push_back(std::move(found));
  };
  double limit = memory;
  while (!best && limit > 0 && too_large.size() < kAttempts) {
    FoundPlan found = search(pins, limit);
    if (keeps(found)) {
      best = std::move(found);
      continue;
    }
    const bool homes_fit = found.plan.fits;
    const bool lowered = !found.peak_bytes.empty();
    const double excess = homes_fit ? (lowered ? found.peak : held(found)) - memory : 0;
    reject(std::move(found));
    if (!homes_fit) break;
    limit -= std::max(excess, memory * kLeastStep);
  }
  const bool exact = best && too_large.empty() && best->plan.exact && !several;
  const auto consider = [&](FoundPlan found) {
    if ((!best || cost(found) < cost(*best)) && keeps(found)) {
      best = std::move(found);
    } else {
      reject(std::move(found));
    }
  };
  if (several || !best) {
    for (const double share : kShares) consider(search(pins, limit * share));
    for (const int64_t most : {SearchOptions{}.replicate_bytes, int64_t{0}}) {
      if (most < request_.options.replicate_bytes) consider(search(pins, std::nullopt, most));
    }
  }
  if (!best && least) {
    *least = std::move(*std::min_element(
        too_large.begin(), too_large.end(),
        [&](const FoundPlan& a, const FoundPlan& b) { return homes(a) < homes(b); }));
  }
  if (best) best->limited = true;
  if (best && !exact) {
    best->plan.exact = false;
    const double own = cost(*best);
    best->plan.gap = own != 0 ? std::max(0.0, 1 - cost(free) / own) : 0.0;
  }
  return best;
}

}  // namespace smex
