#pragma once

#include <limits>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "partition/lower/program.h"
#include "partition/simulate/seconds.h"
#include "partition/simulate/transfers.h"

namespace smex {

/// What processes receive of each other while a list runs. Each has one port, through which one
/// message comes after another: of those whose tiles are written the one that is needed soonest.
class Ports {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// Transfers to processes below `num_processes`.
  Ports(const Program& program, const InstrSeconds& seconds, std::vector<Transfer> transfers,
        int num_processes, bool backward);

  /// A tile is there from then on; nothing that is told later was there before.
  void written(int worker, Slot slot, double time);
  /// When the next message sets out, as far as is known.
  double next() const;
  /// It sets out.
  void begin_next();

  /// What comes for one fetch.
  struct Brought {
    double arrives = 0;     ///< kNever: that is not known
    double on_its_way = 0;  ///< seconds
    double charged = 0;     ///< of these the worker's own, if it computes meanwhile
  };
  Brought brought(int worker, int position) const;

  /// How long what a process has received was on its way.
  double transferred(int process) const { return ports_[process].transferred; }
  /// In the order in which they have set out.
  const std::vector<Message>& messages() const { return messages_; }

 private:
  struct State {
    double needed = kNever;  ///< when a worker that never waited would read it
    size_t missing = 0;      ///< tiles that are not written
    double ready = 0;        ///< when the others were
    double arrives = kNever;
  };
  using Urgency = std::tuple<double, int, int>;  ///< when needed, relayout, transfer
  using Readiness = std::pair<double, int>;
  struct Port {
    double free = 0, transferred = 0;
    std::set<Urgency> ready;  ///< when it is free
    std::priority_queue<Readiness, std::vector<Readiness>, std::greater<>> later;
    double next() const;
  };

  void find_needed(const Program& program, const InstrSeconds& seconds, bool backward);

  const std::vector<Transfer> transfers_;
  std::vector<State> states_;                              ///< by transfer
  std::vector<std::map<Slot, std::vector<int>>> of_slot_;  ///< transfers by worker
  std::vector<std::map<int, std::vector<int>>> of_fetch_;  ///< transfers by worker and position
  std::vector<Port> ports_;                                ///< by process
  std::vector<Message> messages_;
};

}  // namespace smex
