#pragma once

#include <memory>

#include "ir/graph.h"
#include "partition/search/recursion/recursion.h"
#include "partition/search/search.h"

namespace smex {

/// Searches one graph and mesh for several prices of memory. What ops cost is counted once.
class SearchByPrice {
 public:
  /// The graph must outlive it.
  SearchByPrice(const Graph& graph, Mesh mesh, SearchOptions options);

  /// The plan of the least cost, memory included; its prices are without. Its proof says nothing of
  /// a limit.
  Plan with(const MemoryPrice& price);

 private:
  const Graph& graph_;
  const Mesh mesh_;
  const SearchOptions options_;
  std::optional<Machine> machine_;
  Recursion recursion_;
};

}  // namespace smex
