#include "partition/plan/recomputation.h"

#include <map>
#include <set>

#include "tdl/spec.h"

namespace smex {

namespace {

/// Whether what a call of the region makes stays because a forward call of `reader` reads it.
bool keeps(int region, int reader) {
  return reader != region && !(is_open(region) && reader == kNoRegion);
}

/// By value the position of its call, where no forward call that keeps it, nor the caller, reads
/// it; -1 elsewhere.
std::vector<int> makers_of_inner(const Graph& graph, const std::vector<const Op*>& calls) {
  std::vector<int> maker(graph.values().size(), -1);
  for (size_t position = 0; position < calls.size(); ++position) {
    const Op& op = *calls[position];
    if (op.backward || op.random || op.region == kNoRegion) continue;
    for (ValueId output : op.outputs) {
      if (output != kNoValue) maker[output] = static_cast<int>(position);
    }
  }
  for (const Op* op : calls) {
    if (op->backward) continue;
    for (ValueId input : op->inputs) {
      const int position = maker[input];
      if (position >= 0 && keeps(calls[position]->region, op->region)) maker[input] = -1;
    }
  }
  for (const GraphOutput& output : graph.outputs()) {
    if (output.value != kNoValue) maker[output.value] = -1;
  }
  return maker;
}

}  // namespace

Recomputation recomputation(const Graph& graph, const std::vector<const Op*>& calls) {
  Recomputation found;
  found.before.resize(calls.size());
  found.again.assign(calls.size(), false);
  found.remade.assign(graph.values().size(), false);
  const std::vector<int> maker = makers_of_inner(graph, calls);
  for (size_t n = calls.size(); n-- > 0;) {
    if (!calls[n]->backward && !found.again[n]) continue;
    for (ValueId input : calls[n]->inputs) {
      if (maker[input] < 0) continue;
      found.remade[input] = true;
      found.again[maker[input]] = true;
    }
  }
  // What weighs an output that is made again is so as well.
  for (size_t n = 0; n < calls.size(); ++n) {
    if (!found.again[n] || !calls[n]->spec) continue;
    const std::vector<int> sums = tdl::weight_sums(*calls[n]->spec);
    for (size_t o = 0; o < sums.size(); ++o) {
      const ValueId mean = calls[n]->outputs[o];
      if (sums[o] < 0 || mean == kNoValue || !found.remade[mean]) continue;
      found.remade[calls[n]->outputs[sums[o]]] = true;
    }
  }
  std::map<int, std::vector<int>> waiting;  // by region
  for (size_t n = 0; n < calls.size(); ++n) {
    if (found.again[n]) waiting[calls[n]->region].push_back(static_cast<int>(n));
  }
  for (size_t n = 0; n < calls.size() && !waiting.empty(); ++n) {
    if (!calls[n]->backward) continue;
    std::set<int> regions;
    for (ValueId input : calls[n]->inputs) {
      if (found.remade[input]) regions.insert(calls[maker[input]]->region);
    }
    for (int region : regions) {
      const auto it = waiting.find(region);
      if (it == waiting.end()) continue;
      found.before[n].insert(found.before[n].end(), it->second.begin(), it->second.end());
      waiting.erase(it);
    }
  }
  return found;
}

Recomputation recomputation(const Graph& graph) {
  std::vector<const Op*> calls;
  for (const Op& op : graph.ops()) calls.push_back(&op);
  return recomputation(graph, calls);
}

}  // namespace smex
