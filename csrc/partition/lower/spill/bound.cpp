#include "partition/lower/spill/bound.h"

#include <algorithm>

namespace smex {
namespace {

constexpr int kRounds = 300;
constexpr int kPatience = 8;  ///< rounds without a gain, after which steps are half as long

}  // namespace

TransferBound::TransferBound(const SpillProblem& problem, int64_t known) : problem_(problem) {
  int uses = 0;
  for (const SpillBlock& block : problem.blocks) {
    first_.push_back(uses);
    uses += static_cast<int>(block.uses.size());
  }
  clean_.resize(uses);
  dirty_.resize(uses);
  std::vector<double> prices(problem.num_steps, 0), best = prices;
  double most = -1, scale = 1;
  int idle = 0;
  for (int round = 0; round < kRounds; ++round) {
    price(prices);
    if (bytes_ > most * (1 + 1e-12)) {
      most = bytes_;
      best = prices;
      idle = 0;
    } else if (++idle >= kPatience) {
      scale /= 2;
      idle = 0;
      prices = best;
      price(prices);
    }
    const double gap = static_cast<double>(known) - bytes_;
    if (gap < 1e-9 * static_cast<double>(known)) break;
    const std::vector<double> over = overuse();
    double square = 0;
    for (size_t step = 0; step < over.size(); ++step) {
      if (prices[step] > 0 || over[step] > 0) square += over[step] * over[step];
    }
    if (square == 0) break;
    const double length = scale * gap / square;
    for (size_t step = 0; step < over.size(); ++step) {
      prices[step] = std::max(0.0, prices[step] + length * over[step]);
    }
  }
  price(best);
}

void TransferBound::price(const std::vector<double>& prices) {
  const int num_steps = problem_.num_steps;
  sums_.assign(num_steps + 1, 0);
  for (int step = 0; step < num_steps; ++step) sums_[step + 1] = sums_[step] + prices[step];
  rest_.assign(num_steps + 1, 0);
  bytes_ = 0;
  for (size_t b = 0; b < problem_.blocks.size(); ++b) {
    const SpillBlock& block = problem_.blocks[b];
    const auto size = static_cast<double>(block.bytes);
    for (size_t use = block.uses.size(); use-- > 0;) {
      const int at = first_[b] + static_cast<int>(use), step = block.uses[use];
      clean_[at] = dirty_[at] = size * prices[step];
      if (use + 1 == block.uses.size()) continue;
      const double keep = size * (sums_[block.uses[use + 1]] - sums_[step + 1]);
      const double again = size + clean_[at + 1];
      clean_[at] += std::min(keep + clean_[at + 1], again);
      dirty_[at] += std::min(keep + dirty_[at + 1], size + again);
    }
    if (block.uses.empty()) continue;
    if (block.on_host) {
      bytes_ += size + clean_[first_[b]];
    } else {
      rest_[block.uses[0]] += block.kept ? size + clean_[first_[b]] : dirty_[first_[b]];
    }
  }
  for (int step = num_steps; step-- > 0;) {
    rest_[step] += rest_[step + 1] - prices[step] * static_cast<double>(problem_.capacity);
  }
  bytes_ += rest_[0];
}

std::vector<double> TransferBound::overuse() const {
  std::vector<double> change(problem_.num_steps + 1, 0);
  change[0] = -static_cast<double>(problem_.capacity);
  for (size_t b = 0; b < problem_.blocks.size(); ++b) {
    const SpillBlock& block = problem_.blocks[b];
    const auto size = static_cast<double>(block.bytes);
    bool is_dirty = !block.on_host && !block.kept;
    for (size_t use = 0; use < block.uses.size(); ++use) {
      const int at = first_[b] + static_cast<int>(use), step = block.uses[use];
      change[step] += size;
      if (use + 1 == block.uses.size()) {
        change[step + 1] -= size;
        continue;
      }
      const int next = block.uses[use + 1];
      const double keep = size * (sums_[next] - sums_[step + 1]);
      const double stays = keep + (is_dirty ? dirty_ : clean_)[at + 1];
      const double leaves = size + clean_[at + 1] + (is_dirty ? size : 0);
      if (stays <= leaves) {
        change[next] -= size;
      } else {
        is_dirty = false;
        change[step + 1] -= size;
      }
    }
  }
  for (int step = 0; step < problem_.num_steps; ++step) change[step + 1] += change[step];
  change.pop_back();
  return change;
}

double TransferBound::on_host(int block, int use) const {
  return static_cast<double>(problem_.blocks[block].bytes) + clean_[first_[block] + use];
}

double TransferBound::to_go(int block, int use, int step, bool is_there, bool is_dirty) const {
  const double again = on_host(block, use);
  if (!is_there) return again;
  const SpillBlock& one = problem_.blocks[block];
  const auto size = static_cast<double>(one.bytes);
  const double keep = size * (sums_[one.uses[use]] - sums_[step]);
  const int at = first_[block] + use;
  return std::min(keep + (is_dirty ? dirty_ : clean_)[at], again + (is_dirty ? size : 0));
}

}  // namespace smex
