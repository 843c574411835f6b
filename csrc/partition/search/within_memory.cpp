#include "partition/search/within_memory.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "partition/lower/lower.h"
#include "partition/lower/residency.h"
#include "partition/lower/sums_by_peer.h"
#include "partition/price/memory.h"
#include "partition/search/by_price.h"
#include "partition/simulate/seconds.h"

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
/// So many calls, times the steps of the mesh, are searched by a price of memory alone.
constexpr size_t kLongToBound = size_t{1} << 16;

/// Seconds in which the busiest worker computes.
double busiest(const Program& program, const Machine& machine, const std::set<std::string>& views) {
  double most = 0;
  for (const auto& lists : predicted_seconds(program, machine, views)) {
    double own = 0;
    for (const auto& list : lists) own = std::accumulate(list.begin(), list.end(), own);
    most = std::max(most, own);
  }
  return most;
}

}  // namespace

FoundPlan Solver::search(const std::vector<Pin>& pins, std::optional<double> limit) const {
  return search(pins, limit, request_.options.replicate_bytes);
}

FoundPlan Solver::search(const std::vector<Pin>& pins, std::optional<double> limit,
                         int64_t replicate_bytes) const {
  SearchOptions options = options_with(pins);
  options.memory_limit = limit;
  options.replicate_bytes = replicate_bytes;
  FoundPlan found;
  found.plan = smex::search(graph_, request_.mesh, options);
  found.replicate_bytes = replicate_bytes;
  keep_shards_of(found.plan);
  return found;
}

SearchOptions Solver::options_with(const std::vector<Pin>& pins) const {
  SearchOptions options = request_.options;
  options.pinned.clear();
  for (const Pin& pin : pins) options.pinned[pin.value] = pin.placement;
  for (const auto& [value, shards] : request_.shards) options.pinned[value] = shards.placement;
  return options;
}

void Solver::keep_shards_of(Plan& plan) const {
  if (request_.shards.empty()) return;
  std::map<ValueId, std::vector<Tile>> tiles;
  for (const auto& [value, shards] : request_.shards) tiles[value] = shards.tiles;
  keep_shards(graph_, tiles, plan);
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
    const LowerOptions options{request_.options.views, /*join=*/true, /*overlap=*/false};
    found.program = std::make_unique<Program>(lower(graph_, found.plan, options));
    found.peak_bytes = peak_bytes(*found.program, request_.options.views);
  }
  const double states = request_.options.optimizer_states;
  const std::vector<int64_t> parameters =
      states > 0 ? parameter_bytes_by_worker(graph_, found.plan) : std::vector<int64_t>(workers, 0);
  const std::vector<double>& scale = request_.options.memory_scale;
  for (size_t w = 0; w < workers; ++w) {
    const double own =
        static_cast<double>(found.peak_bytes[w]) + states * static_cast<double>(parameters[w]);
    found.peak = std::max(found.peak, scale.empty() ? own : scale[w] * own);
  }
  return found.peak;
}

/// The most bytes that are live in tensors' homes, by the largest tile of each. Sooner known than
/// the peak, which is at least about as much.
double Solver::homes(const FoundPlan& found) const {
  return static_cast<double>(peak_of_homes(graph_, found.plan, request_.options.views));
}

bool Solver::may_fit() const {
  const SearchOptions& options = request_.options;
  const int64_t least =
      least_peak(graph_, mesh_size(request_.mesh), options.views, options.optimizer_states);
  double limits = 0;  // of all workers
  for (const double scale : options.memory_scale) limits += *options.memory_limit / scale;
  const auto workers = static_cast<double>(mesh_size(request_.mesh));
  if (!options.memory_scale.empty()) return static_cast<double>(least) * workers <= limits;
  return static_cast<double>(least) <= *options.memory_limit;
}

bool Solver::keeps(FoundPlan& found) const {
  const double limit = *request_.options.memory_limit;
  const size_t calls = graph_.ops().size() * static_cast<size_t>(mesh_size(found.plan.mesh));
  const bool is_long =
      calls > kLongToLower && calls <= kTooLongToLower && request_.options.memory_scale.empty();
  if (is_long && held(found) > kFarAbove * limit) return false;
  return peak(found) <= limit || keeps_by_peer(found);
}

bool Solver::keeps_by_peer(FoundPlan& found) const {
  const auto& ops = graph_.ops();
  const bool has_sums = std::any_of(ops.begin(), ops.end(), is_sum_of_messages);
  if (!has_sums || found.plan.by_peer || !found.program) return false;
  FoundPlan other;
  other.plan = found.plan;
  other.plan.by_peer = true;
  other.replicate_bytes = found.replicate_bytes;
  if (peak(other) > *request_.options.memory_limit || other.program->sums_by_peer == 0) {
    return false;
  }
  other.limited = true;
  if (request_.options.machine) {
    const Machine machine = request_.options.machine->on(found.plan.mesh);
    const double more = busiest(*other.program, machine, request_.options.views) -
                        busiest(*found.program, machine, request_.options.views);
    other.plan.compute_seconds += std::max(0.0, more);
  }
  found = std::move(other);
  return true;
}

double Solver::held(const FoundPlan& found) const {
  const double states = request_.options.optimizer_states;
  const auto most = static_cast<double>(peak_of_calls(graph_, found.plan, request_.options.views));
  return most +
         (states > 0 ? states * static_cast<double>(parameter_bytes(graph_, found.plan)) : 0);
}

/// The cheapest of the plans that keep to the limit under some price of memory: first it rises or
/// falls by large factors until it has enclosed the least one that does, and then by ever smaller
/// ones.
std::optional<FoundPlan> Solver::by_price(const std::vector<Pin>& pins, const FoundPlan& free,
                                          std::vector<FoundPlan>& too_large) const {
  constexpr double kFactor = 8, kMostRises = 7, kLeastRatio = 1.05;
  const double memory = *request_.options.memory_limit;
  // Of a byte of each worker: that it is moved once, or the part that it is of all.
  const bool timed = request_.options.objective == Objective::kTime;
  const double worth = timed ? std::max(cost(free), 1e-9) / memory : mesh_size(request_.mesh);
  SearchByPrice search(graph_, request_.mesh, options_with(pins));
  std::vector<OpId> points{heaviest_point(graph_, free.plan, request_.options.views).op};
  std::optional<FoundPlan> best;
  const auto keeps_at = [&](double per_byte) {
    MemoryPrice price{per_byte, std::vector<double>(graph_.ops().size(), 0)};
    for (OpId point : points) price.shares[point] = 1.0 / static_cast<double>(points.size());
    FoundPlan found;
    found.plan = search.with(price);
    found.replicate_bytes = request_.options.replicate_bytes;
    keep_shards_of(found.plan);
    const bool kept = keeps(found);
    found.program.reset();
    if (!kept) {
      const OpId point = heaviest_point(graph_, found.plan, request_.options.views).op;
      if (std::find(points.begin(), points.end(), point) == points.end()) points.push_back(point);
      too_large.push_back(std::move(found));
    } else if (!best || cost(found) < cost(*best)) {
      best = std::move(found);
    }
    return kept;
  };
  double low = 0, high = 0, price = worth;
  for (int n = 0; n < kMostRises && (low == 0 || high == 0); ++n) {
    (keeps_at(price) ? high : low) = price;
    price = high == 0 ? low * kFactor : high / kFactor;
  }
  if (high == 0) return best;
  low = std::max(low, high / kFactor);
  while (high > low * kLeastRatio) {
    const double middle = std::sqrt(low * high);
    (keeps_at(middle) ? high : low) = middle;
  }
  return best;
}

bool Solver::fits(const std::vector<Pin>& pins) const {
  FoundPlan free = search(pins);
  return keeps(free) || (may_fit() && within_memory(pins, free));
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
  const bool is_large = several && graph_.ops().size() * request_.mesh.size() > kLongToBound;
  while (!best && !is_large && limit > 0 && too_large.size() < kAttempts) {
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
  if (several) {
    if (auto found = by_price(pins, free, too_large)) consider(std::move(*found));
  }
  if ((several || !best) && !is_large) {
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
