#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "partition/lower/program.h"
#include "partition/price/call_cost.h"

namespace smex::runtime {

/// What a call does, and the seconds that it was measured to take.
struct MeasuredCall {
  std::string kind;  ///< see `call_kind`; its target where it stands for no op of the graph
  std::string target;
  CallWork work;
  double seconds = 0;
};

struct MeasureOptions {
  std::set<std::string> views;  ///< operators whose results share memory, which take no time
  double call_seconds = 0.02;   ///< for which a call is repeated, all rounds together
  int most_repeats = 20;        ///< in a round, on the CPU
  c10::Device device = at::kCPU;
  std::function<void(double)> progress;  ///< is told the share of all that is done
};

/// Runs each call of one worker's lists in some programs of a graph by itself, and those that
/// are alike once: same operator, arguments and operands' shapes. Operands are numbers between 0
/// and 1 of the shape that they have in the program, so no more than one call's tensors exist at a
/// time. Integers are what they are in the program, as far as it makes them of `given`,
/// else 0.
///
/// `given`, by value, are whole tensors of the graph's inputs, undefined where nothing is known.
/// Calls that cannot run on such numbers are left out. On the CPU seconds are those of the thread's
/// processor, times what passes for each of them over all calls together; on an accelerator those
/// that pass for each of many calls one after the other.
std::vector<MeasuredCall> measure_calls(const std::vector<const Program*>& programs,
                                        const Graph& graph, int worker,
                                        const std::vector<at::Tensor>& given,
                                        const MeasureOptions& options);

}  // namespace smex::runtime
