#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"
#include "partition/plan/coarsen.h"
#include "partition/plan/dim_classes.h"
#include "partition/search/search.h"

namespace smex {

/// Tensors that are cut alike.
struct Group {
  std::vector<Grain> grains;  ///< by dimension, of all members
  bool parameter = false;     ///< some member outlives an iteration
  bool boundary = true;       ///< all members are given from outside
};

/// A tensor of an op: an input, or an output that somebody uses.
struct Operand {
  ValueId value = kNoValue;
  bool output = false;
  size_t position = 0;  ///< among the op's inputs or outputs
  size_t slot = 0;      ///< of its group in `OpClass::groups`
  bool weighs = false;  ///< an output that weighs another one, see store_bytes
};

/// Ops that run under the same strategy: they have equal specs on equal groups.
struct OpClass {
  OpId op = -1;                   ///< the first of them
  double repeats = 1;             ///< runs of all of them in an iteration
  std::vector<Operand> operands;  ///< inputs, then outputs
  std::vector<int> groups;        ///< of the operands, each once
};

/// A graph with what is cut alike merged, and all that a search knows of it before the first step.
struct MergedGraph {
  MergedGraph(const Graph& graph, const SearchOptions& options, Merge merge);

  const Graph& graph;
  DimClasses classes;
  std::vector<bool> may_pend;  ///< by value whether workers may hold addends; empty: nowhere
  CoarseGraph coarse;
  std::vector<std::vector<Grain>> grains;  ///< by value and dimension
  std::vector<Group> groups;               ///< as in `coarse.groups`
  std::vector<OpClass> ops;                ///< as in `coarse.classes`
};

}  // namespace smex
