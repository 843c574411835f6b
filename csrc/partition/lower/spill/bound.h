#pragma once

#include <vector>

#include "partition/lower/spill/schedule.h"

namespace smex {

/// What a block's transfers cost from a step on, at prices for a byte on the device, and with them
/// a bound on all schedules:
///
///   min  Σ_blocks transfers   subject to   Σ_blocks held(step) ≤ capacity   for each step
///   ≥  max_{y ≥ 0}  Σ_blocks min (transfers + Σ_steps y · held)  −  Σ_steps y · capacity
///
/// Without the limits, whose Lagrangian multipliers the prices y are, each block is by itself: it
/// stays from one use to the next or it does not. Subgradient ascent finds prices.
class TransferBound {
 public:
  /// `known` are the bytes of a schedule. Takes about 300 times the uses of all blocks.
  TransferBound(const SpillProblem& problem, int64_t known);

  /// No schedule moves fewer bytes.
  double bytes() const { return bytes_; }

  /// The least that the block costs before `step`, of its use number `use` which is the first that
  /// is not past. Where it is on the device it may stay or leave.
  double to_go(int block, int use, int step, bool is_there, bool is_dirty) const;
  /// If it leaves now, what it takes to write it excluded.
  double on_host(int block, int use) const;
  /// What is to be added over all blocks that a state knows: those that are made from `step` on,
  /// and what the capacity is worth.
  double rest(int step) const { return rest_[step]; }

 private:
  void price(const std::vector<double>& prices);
  std::vector<double> overuse() const;

  const SpillProblem& problem_;
  std::vector<double> sums_;           ///< of prices, before each step
  std::vector<int> first_;             ///< by block of its uses, in the two below
  std::vector<double> clean_, dirty_;  ///< by use what is to be paid from it on
  std::vector<double> rest_;           ///< by step
  double bytes_ = 0;
};

}  // namespace smex
