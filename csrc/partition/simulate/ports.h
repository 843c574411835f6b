#pragma once

#include <functional>
#include <limits>
#include <queue>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "partition/lower/program.h"
#include "partition/simulate/course.h"
#include "partition/simulate/grouped.h"
#include "partition/simulate/seconds.h"
#include "partition/simulate/transfers.h"

namespace smex {

/// What processes receive of each other while a list runs. Each has a port, and nodes may have some
/// that their processes share; through each one message comes after another. Of the messages whose
/// tiles are written and whose ports are free the one sets out that is needed soonest.
class Ports {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// The transfers, to processes below `num_processes`, must outlive this.
  Ports(const Program& program, const InstrSeconds& seconds, const Transfers& transfers,
        int num_processes, bool backward);

  /// A tile is there from then on; nothing that is told later was there before.
  void written(int worker, Slot slot, double time, const Cause& by);
  /// When the next message sets out, as far as is known.
  double next() const { return next_; }
  /// It sets out. Returns the fetches that read it: workers, and positions in their lists.
  std::span<const std::pair<int, int>> begin_next();

  /// What comes for one fetch.
  struct Brought {
    double arrives = 0;     ///< kNever: that is not known
    double on_its_way = 0;  ///< seconds
    double charged = 0;     ///< of these the worker's own, if it computes meanwhile
    int last = -1;          ///< of `spans`, what arrives last
  };
  const Brought& brought(int worker, int position) const {
    const int fetch = fetch_at_[first_instr_[worker] + position];
    return fetch < 0 ? nothing_ : fetches_[fetch].brought;
  }

  /// How long what a process has received was on its way.
  double transferred(int process) const { return transferred_[process]; }
  /// In the order in which they have set out.
  const std::vector<MessageSpan>& spans() const { return spans_; }

 private:
  struct State {
    double needed = kNever;  ///< when a worker that never waited would read it
    int missing = 0;         ///< tiles that are not written
    double ready = 0;        ///< when the others were
    Cause made_by;           ///< what wrote the last tile
  };
  using Urgency = std::tuple<double, int, int>;  ///< when needed, relayout, transfer
  using Readiness = std::pair<double, int>;
  template <typename Item>
  using LeastFirst = std::priority_queue<Item, std::vector<Item>, std::greater<>>;
  /// Transfers that occupy the same ports.
  struct Lane {
    OccupiedPorts ports;
    LeastFirst<Urgency> ready;  ///< when the ports are free
    double since = 0;           ///< what is ready was then
    LeastFirst<Readiness> later;
  };

  /// What other processes' messages bring; `latest` is when those arrive that have set out.
  struct Fetch {
    Brought brought;
    int coming = 0;  ///< messages that have not set out
    double latest = 0;
  };

  /// Finds again when the lane's next message sets out.
  void look_at(int lane);
  void find_slots(const Program& program);
  void find_fetches(const Program& program);
  void find_lanes();
  void find_needed(const Program& program, const InstrSeconds& seconds);

  const Transfers& transfers_;
  std::vector<State> states_;     ///< by transfer
  std::vector<int> first_slot_;   ///< by worker, of all slots
  std::vector<int> first_instr_;  ///< by worker, of all instructions
  Grouped of_slot_;               ///< by slot the transfers that it is a source of
  std::vector<int> fetch_at_;     ///< by instruction, or -1
  std::vector<Fetch> fetches_;
  const Brought nothing_;
  std::vector<Lane> lanes_;
  std::vector<double> next_of_;             ///< by lane, when its next message sets out
  std::vector<std::vector<int>> lanes_of_;  ///< by port
  double next_ = kNever;                    ///< the least of all
  std::vector<int> lane_of_;                ///< by transfer
  std::vector<double> free_;                ///< by port
  std::vector<double> transferred_;         ///< by process
  std::vector<int> last_;                   ///< by port the message that has occupied it
  const bool backward_;
  std::vector<MessageSpan> spans_;
};

}  // namespace smex
