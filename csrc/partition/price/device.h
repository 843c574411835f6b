#pragma once

#include <map>
#include <string>

#include "partition/price/call_cost.h"

namespace smex {

/// What the time of a worker's calls is told from.
struct Device {
  std::map<int, double> flops;  ///< by item size in bytes: operations a second
  double memory_bandwidth = 1;  ///< bytes a second
  double launch = 0;            ///< seconds that the shortest kernel takes
  double gather_bandwidth = 0;  ///< bytes a second of rows that a table names; 0: the memory's
  CallCosts calls = {};         ///< of calls that were measured

  /// Of a call that was measured the sum of its costs. Of others the roofline: the longest of a
  /// kernel's shortest time, its arithmetic, its operands' bytes and those that it reads of rows
  /// one by one. Throws UserError where numbers are larger than any whose `flops` are known.
  double seconds(const std::string& kind, const std::string& target, const CallWork& work) const;
};

}  // namespace smex
