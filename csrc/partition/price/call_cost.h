#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace smex {

/// What a call does, as far as its time is told from it.
struct CallWork {
  double operations = 0;
  double bytes = 0;     ///< of operands and results
  double gathered = 0;  ///< bytes of rows that are read one by one (`tdl::gathered_bytes`)
  double fresh = 0;     ///< bytes of large results, whose memory the system hands out anew
  int itemsize = 4;     ///< of its last result

  void add_operand(double size) { bytes += size; }
  void add_result(double size, int item);
  /// Memory that a result is given, whatever of it is written.
  void add_memory(double size, int item);
};

/// A call that was measured, and how many times as long as the sum of its costs it took.
struct MeasuredFactor {
  CallWork work;
  double factor = 1;
};

/// What calls were measured to take: seconds of each, and of what it does; and by which factors
/// that differed, as caches do. Between calls that were measured the mean of their logarithms
/// counts, by the inverse squares of distances of the logarithms of what the calls do (Shepard
/// 1968, "A two-dimensional interpolation function for irregularly-spaced data").
struct CallCost {
  double call = 0;
  double operation = 0;
  double byte = 0;
  double gathered_byte = 0;
  double fresh_byte = 0;
  std::vector<MeasuredFactor> measured = {};

  double seconds(const CallWork& work) const;
};

/// By kind of call (see `call_kind`), or by operator for all others, and by item size.
using CallCosts = std::map<std::string, std::map<int, CallCost>>;

/// What is known of a call of a kind, or of the operator; null where nothing is.
const CallCost* find_cost(const CallCosts& costs, const std::string& kind,
                          const std::string& target, int itemsize);

/// An op with its arguments and the whole shapes of its operands, and which views these are: calls
/// of one kind do the same where they compute tiles of as many elements.
/// "aten::mm aten::permute[16, 32768] [32768, 8]".
std::string call_kind(const Graph& graph, const Op& op);

}  // namespace smex
