#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partition/lower/program.h"

namespace smex {

enum class CollectiveKind { kAllGather, kAllReduce, kAllToAll, kReduceScatter };

/// As in torch.distributed: "all_gather".
std::string name_of(CollectiveKind kind);
/// The kind of this name. Throws UserError.
CollectiveKind parse_collective(const std::string& name);

/// Whether it adds parts up, in an order of its own.
bool adds(CollectiveKind kind);

/// A relayout that is one collective in each of some groups of processes.
struct Collective {
  bool backward = false;  ///< the list that it is in
  int relayout = -1;      ///< FetchInstr::relayout
  CollectiveKind kind = CollectiveKind::kAllGather;
  std::vector<std::vector<int>> groups;  ///< of processes, as many each, ascending and disjoint
  /// That a process of the group with most has of each other one in the end: of an all_gather a
  /// process's tile, of sums the result.
  int64_t bytes = 0;
};

/// Finds the relayouts of a program that are collectives, worker `w` being one of process
/// `ranks[w]`: between the processes of a group go as many boxes of equal shapes from each to each.
///
/// * all_gather: each sends all others the same boxes;
/// * all_to_all: any that are even;
/// * reduce_scatter: each process has one worker that adds up one part of each process, in any
///   order; all_reduce: of which each has the same for all. With `reorder` only, and of real
///   floating-point numbers; otherwise they are one of the two above, and added up in the order of
///   workers.
///
/// A relayout that is even in some groups only is not among them. Throws like `list_exchanges`.
std::vector<Collective> find_collectives(const Program& program, const std::vector<int>& ranks,
                                         bool reorder);

/// A program of one relayout that is such a collective, of float32: of `bytes`, rounded up to
/// elements, by the first worker of each process of the groups. Its input 0 is what is sent, its
/// output 0 what comes.
Program sample_collective(CollectiveKind kind, const std::vector<std::vector<int>>& groups,
                          const std::vector<int>& ranks, int64_t bytes);

}  // namespace smex
