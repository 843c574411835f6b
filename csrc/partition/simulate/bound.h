#pragma once

#include <vector>

#include "partition/lower/program.h"
#include "partition/simulate/seconds.h"
#include "partition/simulate/transfers.h"

namespace smex {

/// What a list takes at least, in whatever order messages go, however much memory they may fill and
/// if they cost workers no time: as long as any worker is busy; as long as any chain of
/// instructions and messages; and as long as any process receives, given when its messages can set
/// out and what follows them at least (the preemptive schedule of one machine with heads and tails:
/// Jackson's, see Carlier, The one-machine sequencing problem, 1982). Workers compute in their
/// lists' order.
double least_seconds(const Program& program, const InstrSeconds& seconds,
                     const Transfers& transfers, bool backward);

}  // namespace smex
