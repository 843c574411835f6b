#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "partition/plan/plan.h"

namespace smex {

/// A point of the program: after an op and before what it made or read last is given up.
struct MemoryPoint {
  OpId op = -1;
  int64_t bytes = 0;          ///< of the largest tiles of all values that are live, without fetches
  std::vector<ValueId> live;  ///< ascending
};

/// By op the bytes of the largest tiles of all values that are live, without fetches. Outputs of
/// the operators in `views` take none, and keep their first input.
std::vector<int64_t> live_bytes(const Graph& graph, const Plan& plan,
                                const std::set<std::string>& views = {});

/// The most of them.
int64_t peak_of_homes(const Graph& graph, const Plan& plan,
                      const std::set<std::string>& views = {});

/// What no plan for so many workers is below at its peak, with the optimiser's states: each value
/// that is in memory at a point takes at least its part of one worker. What only the members of a
/// fusion may make and read does not count.
int64_t least_peak(const Graph& graph, int workers, const std::set<std::string>& views,
                   double optimizer_states);

/// The peak of the fullest worker as tensors' homes and what each call fetches and makes beside
/// them tell it, without a program: for plans that take long to lower. Of calls that could be fused
/// it has what they never make, and not how long workers wait for each other.
int64_t peak_of_calls(const Graph& graph, const Plan& plan,
                      const std::set<std::string>& views = {});

/// The point at which the homes of values take the most memory.
MemoryPoint heaviest_point(const Graph& graph, const Plan& plan,
                           const std::set<std::string>& views = {});

/// By worker the bytes of its tiles of all parameters.
std::vector<int64_t> parameter_bytes_by_worker(const Graph& graph, const Plan& plan);
/// Bytes of the largest tiles of all parameters.
int64_t parameter_bytes(const Graph& graph, const Plan& plan);

/// From which op to which a value is in memory, both included.
struct Lifetime {
  OpId first = 0, last = 0;
  bool is_view = false;  ///< of a value that lives as long
  /// Of what the backward pass makes once more and reads then: the same of its second life.
  OpId again = -1, until = -2;

  bool holds(OpId op) const { return (first <= op && op <= last) || (again <= op && op <= until); }

  /// Adds `bytes` where the value begins to be in memory, and takes them away after its end.
  template <typename Bytes>
  void add(Bytes bytes, std::vector<Bytes>& change) const {
    change[first] += bytes;
    change[last + 1] -= bytes;
    if (again < 0) return;
    change[again] += bytes;
    change[until + 1] -= bytes;
  }
};

/// By value.
std::vector<Lifetime> lifetimes(const Graph& graph, const std::set<std::string>& views);

}  // namespace smex
