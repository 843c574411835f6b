#pragma once

#include <array>
#include <set>
#include <string>
#include <vector>

#include "partition/lower/program.h"
#include "partition/plan/plan.h"
#include "partition/price/machine.h"

namespace smex {

/// By worker, list (forward, backward) and instruction: what the worker itself is busy with it.
using InstrSeconds = std::vector<std::array<std::vector<double>, 2>>;

/// As a machine tells: each call is the roofline of its tile, a fetch the copy of the worker's own
/// part; views and data that other calls read in place take no time.
InstrSeconds predicted_seconds(const Program& program, const Machine& machine,
                               const std::set<std::string>& views);

/// How an iteration goes by.
struct Timeline {
  double seconds = 0;  ///< until the last worker has finished
  /// No order takes less: in each list a worker is busy, and what it receives on its way, as long.
  double least = 0;
  std::vector<double> busy;         ///< by worker: with instructions
  std::vector<double> waiting;      ///< by worker: for tiles of others
  std::vector<double> transferred;  ///< by worker: how long its tiles of others were on their way
};

/// Runs a program in time, without tensors. Workers run as the runtime's do: a fetch begins where
/// it stands, goes on meanwhile, and is waited for when it is due. What a worker receives comes one
/// after another in `relayout_order`, each when all that it is made of has been written, over the
/// link of the first step of the mesh in which the two differ. Of a transfer that goes on meanwhile
/// the link's `overlap` costs no computing time.
///
/// Throws UserError where there are not as many times or links as the program and the mesh have,
/// InternalError where the workers of a program wait for each other.
Timeline simulate(const Program& program, const InstrSeconds& seconds, const Mesh& mesh,
                  const std::vector<Link>& links);

}  // namespace smex
