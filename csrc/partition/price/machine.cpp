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
  double bytes = 0;
  int itemsize = 4;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    bytes += bytes_of(graph, op.inputs[i], grid.inputs[i]);
  }
  for (size_t o = 0; o < op.outputs.size(); ++o) {
    if (op.outputs[o] == kNoValue) continue;
    bytes += bytes_of(graph, op.outputs[o], grid.outputs[o]);
    itemsize = graph.value(op.outputs[o]).itemsize;
  }
  double operations = 0, gathered = 0;
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
    operations = tdl::arithmetic(*op.spec, extents);
    gathered = tdl::gathered_bytes(*op.spec, extents, graph.input_itemsizes(op));
  }
  return compute(operations, bytes, gathered, itemsize);
}

double Machine::compute(double operations, double bytes, double gathered, int itemsize) const {
  const auto rate = flops.lower_bound(itemsize);
  if (rate == flops.end()) {
    throw UserError("machine: no flops for numbers of " + std::to_string(itemsize) + " bytes");
  }
  const double gathers = gather_bandwidth > 0 ? gather_bandwidth : memory_bandwidth;
  return std::max(
      {launch, operations / rate->second, bytes / memory_bandwidth, gathered / gathers});
}

double Machine::transfer(size_t step, double bytes, int workers) const {
  if (bytes <= 0) return 0;
  const Link& link = links.at(step);
  return link.latency + bytes / workers / link.bandwidth;
}

}  // namespace smex
