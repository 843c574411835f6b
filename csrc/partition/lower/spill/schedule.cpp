#include "partition/lower/spill/schedule.h"

#include <algorithm>

#include "ir/error.h"

namespace smex {
namespace {

/// The blocks that leave so that a step fits, as a policy picks them.
std::vector<int> pick(const SpillProblem& problem, SpillPolicy policy, const Residence& residence,
                      const std::vector<int>& last_use, int step, int64_t missing) {
  std::vector<int> candidates;
  const std::vector<int>& used = residence.used(step);
  for (const int block : residence.there()) {
    const bool is_used = std::find(used.begin(), used.end(), block) != used.end();
    if (policy == SpillPolicy::kNone || !is_used) candidates.push_back(block);
  }
  if (policy == SpillPolicy::kNone) return candidates;
  const auto leaves_first = [&](int block) {
    return policy == SpillPolicy::kLru ? -last_use[block] : residence.next_use(block, step);
  };
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](int a, int b) { return leaves_first(a) > leaves_first(b); });
  size_t count = 0;
  for (; missing > 0 && count < candidates.size(); ++count) {
    missing -= problem.blocks[candidates[count]].bytes;
  }
  candidates.resize(count);
  return candidates;
}

int64_t missing_bytes(const SpillProblem& problem, const Residence& residence, int step) {
  int64_t needed = residence.held() - problem.capacity;
  for (const int block : residence.used(step)) {
    if (!residence.is_there(block)) needed += problem.blocks[block].bytes;
  }
  return needed;
}

}  // namespace

std::vector<std::vector<int>> SpillProblem::blocks_of_steps() const {
  std::vector<std::vector<int>> used(num_steps);
  for (size_t b = 0; b < blocks.size(); ++b) {
    for (const int step : blocks[b].uses) used.at(step).push_back(static_cast<int>(b));
  }
  return used;
}

std::vector<int64_t> SpillProblem::bytes_of_steps() const {
  std::vector<int64_t> bytes(num_steps, 0);
  for (const SpillBlock& block : blocks) {
    for (const int step : block.uses) bytes.at(step) += block.bytes;
  }
  return bytes;
}

SpillPolicy spill_policy(const std::string& name) {
  if (name == "none") return SpillPolicy::kNone;
  if (name == "lru") return SpillPolicy::kLru;
  if (name == "belady") return SpillPolicy::kBelady;
  if (name == "dp") return SpillPolicy::kDp;
  throw UserError("spill: expected the policy dp, belady, lru or none, found '" + name + "'");
}

Residence::Residence(const SpillProblem& problem)
    : problem_(problem), used_(problem.blocks_of_steps()) {
  for (const SpillBlock& block : problem.blocks) {
    places_.push_back(block.on_host ? Place::kHost : Place::kAbsent);
  }
}

int Residence::next_use(int block, int step) const {
  const std::vector<int>& uses = problem_.blocks[block].uses;
  const auto next = std::lower_bound(uses.begin(), uses.end(), step);
  return next == uses.end() ? problem_.num_steps : *next;
}

bool Residence::drop(int block) {
  if (!is_there(block)) {
    throw InternalError("spill: block " + std::to_string(block) + " leaves and is not there");
  }
  const bool writes = places_[block] == Place::kDirty;
  const int64_t bytes = problem_.blocks[block].bytes;
  if (writes) to_host += bytes;
  held_ -= bytes;
  places_[block] = Place::kHost;
  return writes;
}

std::vector<int> Residence::enter(int step) {
  std::vector<int> restored;
  for (const int b : used_[step]) {
    const SpillBlock& block = problem_.blocks[b];
    Place& place = places_[b];
    if (is_there(b)) continue;
    held_ += block.bytes;
    if (place == Place::kHost) {
      to_device += block.bytes;
      restored.push_back(b);
      place = Place::kClean;
    } else {
      place = block.kept ? Place::kClean : Place::kDirty;
      if (block.kept) to_host += block.bytes;
    }
  }
  return restored;
}

void Residence::leave(int step) {
  for (const int b : used_[step]) {
    if (problem_.blocks[b].uses.back() != step) continue;
    held_ -= problem_.blocks[b].bytes;
    places_[b] = Place::kAbsent;
  }
}

std::vector<int> Residence::there() const {
  std::vector<int> found;
  for (size_t b = 0; b < places_.size(); ++b) {
    if (is_there(static_cast<int>(b))) found.push_back(static_cast<int>(b));
  }
  return found;
}

void check(const SpillProblem& problem) {
  for (size_t b = 0; b < problem.blocks.size(); ++b) {
    const SpillBlock& block = problem.blocks[b];
    const auto& uses = block.uses;
    const bool ascends = std::adjacent_find(uses.begin(), uses.end(), [](int one, int next) {
                           return one >= next;
                         }) == uses.end();
    const bool is_inside = uses.empty() || (uses.front() >= 0 && uses.back() < problem.num_steps);
    if (block.bytes < 0 || !ascends || !is_inside || (uses.empty() && !block.on_host)) {
      throw UserError("spill: block " + std::to_string(b) +
                      ": expected ascending steps that use it and a size of at least 0");
    }
  }
  const std::vector<int64_t> bytes = problem.bytes_of_steps();
  for (size_t step = 0; step < bytes.size(); ++step) {
    if (bytes[step] <= problem.capacity) continue;
    throw UserError("spill: step " + std::to_string(step) + " uses " + std::to_string(bytes[step]) +
                    " bytes, more than the capacity of " + std::to_string(problem.capacity));
  }
}

void count_transfers(const SpillProblem& problem, SpillSchedule& schedule) {
  Residence residence(problem);
  for (int step = 0; step < problem.num_steps; ++step) {
    for (const int block : schedule.dropped[step]) residence.drop(block);
    residence.enter(step);
    if (residence.held() > problem.capacity) {
      throw InternalError("spill: " + std::to_string(residence.held()) + " bytes at step " +
                          std::to_string(step) + " of a capacity of " +
                          std::to_string(problem.capacity));
    }
    residence.leave(step);
  }
  schedule.to_host = residence.to_host;
  schedule.to_device = residence.to_device;
}

SpillSchedule follow_policy(const SpillProblem& problem, SpillPolicy policy) {
  Residence residence(problem);
  SpillSchedule schedule;
  schedule.dropped.resize(problem.num_steps);
  std::vector<int> last_use(problem.blocks.size(), -1);
  for (int step = 0; step < problem.num_steps; ++step) {
    const int64_t missing = missing_bytes(problem, residence, step);
    schedule.dropped[step] = pick(problem, policy, residence, last_use, step, missing);
    for (const int block : schedule.dropped[step]) residence.drop(block);
    residence.enter(step);
    for (const int block : residence.used(step)) last_use[block] = step;
    residence.leave(step);
  }
  count_transfers(problem, schedule);
  return schedule;
}

}  // namespace smex
