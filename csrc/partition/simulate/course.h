#pragma once

#include <vector>

#include "partition/lower/exchange.h"

namespace smex {

/// What something waited for last: the instruction number `index` that a worker ran, or the message
/// number `index` that set out, or nothing.
struct Cause {
  enum class Kind { kNothing, kInstruction, kMessage };
  Kind kind = Kind::kNothing;
  int worker = 0;
  int index = -1;
};

/// An instruction that a worker has run; waiting is not part of it.
struct InstrSpan {
  bool backward = false;
  int position = 0;  ///< in its list
  double begin = 0, end = 0;
  Cause cause;
};

/// A message that was on its way. `arrives` is a latency after `end`, when its ports are free.
struct MessageSpan {
  bool backward = false;
  Message message;
  double begin = 0, end = 0, arrives = 0;
  double bytes = 0;
  Cause cause;
};

/// What was when, in seconds.
struct Course {
  std::vector<std::vector<InstrSpan>> instructions;  ///< by worker, in the order in which they ran
  std::vector<MessageSpan> messages;                 ///< in the order in which they set out

  /// What led to the end of the last instruction, each what the next waited for, from the first on.
  std::vector<Cause> critical_path() const;
};

}  // namespace smex
