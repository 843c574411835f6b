#pragma once

#include <array>
#include <vector>

#include "partition/lower/exchange.h"
#include "partition/lower/program.h"
#include "partition/plan/plan.h"
#include "partition/price/machine.h"
#include "partition/simulate/course.h"
#include "partition/simulate/seconds.h"

namespace smex {

/// How an iteration goes by.
struct Timeline {
  double seconds = 0;               ///< until the last worker has finished
  double least = 0;                 ///< no order of messages takes less, see `least_seconds`
  std::vector<double> busy;         ///< by worker: with instructions
  std::vector<double> waiting;      ///< by worker: for tiles of others
  std::vector<double> transferred;  ///< by worker: how long its process's tiles were on their way
  /// By list (forward, backward), in the order in which they set out. Processes that send and
  /// receive in this order never wait for each other in a circle, as this course shows, however
  /// long their instructions take.
  std::array<std::vector<Message>, 2> messages;
  Course course;
};

/// Runs a program in time, without tensors, worker `w` being one of process `ranks[w]`, each of its
/// own where there are none. Workers run as the runtime's do: a fetch begins where it stands, goes
/// on meanwhile, and is waited for when it is due. What a process receives comes through its port
/// (see Ports), over the machine's link between the two. Of a transfer that goes on meanwhile the
/// link's `overlap` costs no computing time.
///
/// Throws UserError where there are not as many times, links or ranks as the program and the mesh
/// have, InternalError where the workers of a program wait for each other.
Timeline simulate(const Program& program, const InstrSeconds& seconds, const Mesh& mesh,
                  const Machine& machine, std::vector<int> ranks = {});

}  // namespace smex
