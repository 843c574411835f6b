#include "partition/search/regions.h"

#include <algorithm>
#include <string>

namespace smex {

namespace {

/// Up to the first number: `h.3` of `h.3.mlp.fc`, "" where there is none.
std::string repeated_module(const std::string& path) {
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    const bool is_number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    if (is_number) return path.substr(0, end);
    begin = end + 1;
  }
  return "";
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
  std::vector<int> regions = regions_of(graph);
  int next = num_regions(regions);
  std::string module;  // of the calls before
  for (const Op& op : graph.ops()) {
    if (op.backward || op.region != kNoRegion) continue;
    const std::string own = repeated_module(op.module_path);
    if (own.empty()) continue;
    if (own != module) ++next;
    module = own;
    regions[op.id] = next - 1;
  }
  return regions;
}

}  // namespace smex
