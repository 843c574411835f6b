#include "partition/price/machine.h"

#include <algorithm>

#include "ir/error.h"
#include "partition/plan/coarsen.h"

namespace smex {

namespace {

double bytes_of(const Graph& graph, ValueId id, const std::optional<Grid>& grid) {
  return grid ? static_cast<double>(largest_numel(*grid) * graph.value(id).itemsize) : 0;
}

}  // namespace

double Machine::compute(const Graph& graph, const Op& op, const OpGrid& grid) const {
  if (op.spec && is_data_movement(*op.spec)) return 0;  // a view, or part of another op's read
  CallWork work;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    work.add_operand(bytes_of(graph, op.inputs[i], grid.inputs[i]));
  }
  for (size_t o = 0; o < op.outputs.size(); ++o) {
    if (op.outputs[o] == kNoValue) continue;
    work.add_result(bytes_of(graph, op.outputs[o], grid.outputs[o]),
                    graph.value(op.outputs[o]).itemsize);
  }
  if (op.spec) {
    std::vector<int64_t> extents;
    for (size_t i = 0; i < op.spec->indices.size(); ++i) {
      int64_t largest = 0;
      if (grid.indices.empty()) {
        largest = op.spec->indices[i].extent;
      } else {
        for (const Interval& part : grid.indices[i].parts) largest = std::max(largest, part.size());
      }
      extents.push_back(largest);
    }
    work.operations = tdl::arithmetic(*op.spec, extents);
    work.gathered = tdl::gathered_bytes(*op.spec, extents, graph.input_itemsizes(op));
  }
  return compute(calls.empty() ? "" : call_kind(graph, op), op.target, work);
}

double Machine::compute(const std::string& kind, const std::string& target,
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

double Machine::transfer(size_t step, double bytes, int workers) const {
  if (bytes <= 0) return 0;
  const Link& link = links.at(step);
  return link.latency + bytes / workers / link.bandwidth;
}

}  // namespace smex
