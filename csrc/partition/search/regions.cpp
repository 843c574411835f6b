#include "partition/search/regions.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>

namespace smex {

namespace {

/// The parts of a module's path: `h`, `3` and `fc` of `h.3.fc`.
std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  std::istringstream in(path);
  for (std::string part; std::getline(in, part, '.');) parts.push_back(part);
  return parts;
}

bool is_number(const std::string& part) {
  return !part.empty() && part.find_first_not_of("0123456789") == part.npos;
}

/// The modules that have several numbered ones.
class Repeats {
 public:
  explicit Repeats(const Graph& graph) {
    for (const Op& op : graph.ops()) {
      std::string parent;
      for (const std::string& part : parts_of(op.module_path)) {
        if (is_number(part)) numbers_[parent].insert(part);
        parent += part + ".";
      }
    }
  }

  /// The outermost of several numbered modules on a path, `h.3` of `h.3.mlp.fc`; a number that has
  /// no others beside it only where there is none, and "" where there is no number.
  std::string module_of(const std::string& path) const {
    std::string parent, single;
    for (const std::string& part : parts_of(path)) {
      const std::string own = parent + part;
      if (is_number(part) && numbers_.at(parent).size() > 1) return own;
      if (is_number(part)) single = own;
      parent = own + ".";
    }
    return single;
  }

 private:
  std::map<std::string, std::set<std::string>> numbers_;  ///< by the path up to them
};

/// Whether two calls read and make tensors of equal shapes and types.
bool are_alike(const Graph& graph, const Op& a, const Op& b) {
  const auto alike = [&](const std::vector<ValueId>& some, const std::vector<ValueId>& others) {
    return std::equal(some.begin(), some.end(), others.begin(), others.end(),
                      [&](ValueId one, ValueId other) {
                        if (one == kNoValue || other == kNoValue) return one == other;
                        const Value &x = graph.value(one), &y = graph.value(other);
                        return x.shape == y.shape && x.dtype == y.dtype;
                      });
  };
  return alike(a.inputs, b.inputs) && alike(a.outputs, b.outputs);
}

}  // namespace

std::vector<int> regions_of(const Graph& graph) {
  std::vector<int> regions;
  for (const Op& op : graph.ops()) regions.push_back(op.region);
  return regions;
}

int num_regions(const std::vector<int>& regions) {
  return regions.empty() ? 0 : 1 + *std::max_element(regions.begin(), regions.end());
}

std::vector<int> module_regions(const Graph& graph) {
  const Repeats repeats(graph);
  std::vector<int> regions = regions_of(graph);
  int next = num_regions(regions);
  std::string module;         // of the calls before
  const Op* first = nullptr;  // of them; the same call once more begins another use of the module
  for (const Op& op : graph.ops()) {
    if (op.backward || op.region != kNoRegion) continue;
    const std::string own = repeats.module_of(op.module_path);
    if (own.empty()) continue;
    const bool is_again = first && op.target == first->target && op.source == first->source &&
                          op.module_path == first->module_path && are_alike(graph, op, *first);
    if (own != module || is_again) {
      ++next;
      first = &op;
    }
    module = own;
    regions[op.id] = next - 1;
  }
  return regions;
}

}  // namespace smex
