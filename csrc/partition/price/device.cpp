#include "partition/price/device.h"

#include <algorithm>

#include "ir/error.h"

namespace smex {

double Device::seconds(const std::string& kind, const std::string& target,
                       const CallWork& work) const {
  if (const CallCost* known = find_cost(calls, kind, target, work.itemsize)) {
    return known->seconds(work);
  }
  const auto rate = flops.lower_bound(work.itemsize);
  if (rate == flops.end()) {
    throw UserError("machine: no flops for numbers of " + std::to_string(work.itemsize) + " bytes");
  }
  const double gathers = gather_bandwidth > 0 ? gather_bandwidth : memory_bandwidth;
  return std::max({launch, work.operations / rate->second, work.bytes / memory_bandwidth,
                   work.gathered / gathers});
}

}  // namespace smex
