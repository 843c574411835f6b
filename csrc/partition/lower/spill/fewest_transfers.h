#pragma once

#include "partition/lower/spill/schedule.h"

namespace smex {

struct SpillLimits {
  int states = 4096;       ///< of a step that are gone on with: the T of ROC §5
  int choices = 16;        ///< of blocks that leave, for one state and step
  int64_t work = 1 << 26;  ///< states times blocks times steps, to which `states` keeps
  int small_part = 1024;   ///< of the capacity; smaller blocks leave only if nothing else helps
};

/// The schedule of the fewest bytes, by ROC's Algorithm 1 (ROC §5): a dynamic program over pairs of
/// what has been computed, here the steps so far, as their order is given, and which blocks are on
/// the device. Both what comes and what has to be written counts.
///
/// A block leaves only when there is no room for a step, and no more leave than have to. What a
/// state costs at the least from there on is known by prices (bound.h): states that cannot be
/// better than the best schedule known are left out, and of more than the limits the most promising
/// are gone on with. Never worse than LRU and Belady's rule, whose schedules are known at first.
/// `SpillSchedule::least` is its own bytes where nothing promising was left out.
SpillSchedule fewest_transfers(const SpillProblem& problem, const SpillLimits& limits = {});

/// By any policy.
SpillSchedule schedule_transfers(const SpillProblem& problem, SpillPolicy policy);

}  // namespace smex
