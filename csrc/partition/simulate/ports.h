#pragma once

#include <limits>
#include <optional>
#include <queue>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "partition/lower/program.h"
#include "partition/simulate/course.h"
#include "partition/simulate/seconds.h"
#include "partition/simulate/transfers.h"

namespace smex {

/// What processes receive of each other while a list runs. Each has a port, and nodes may have some
/// that their processes share; through each one message comes after another. Of the messages whose
/// tiles are written and whose ports are free the one sets out that is needed soonest.
class Ports {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// Transfers to processes below `num_processes`.
  Ports(const Program& program, const InstrSeconds& seconds, std::vector<Transfer> transfers,
        int num_processes, bool backward);

  /// A tile is there from then on; nothing that is told later was there before.
  void written(int worker, Slot slot, double time, const Cause& by);
  /// When the next message sets out, as far as is known.
  double next();
  /// It sets out. Returns the fetches that read it: workers, and positions in their lists.
  const std::vector<std::pair<int, int>>& begin_next();

  /// What comes for one fetch.
  struct Brought {
    double arrives = 0;     ///< kNever: that is not known
    double on_its_way = 0;  ///< seconds
    double charged = 0;     ///< of these the worker's own, if it computes meanwhile
    int last = -1;          ///< of `spans`, what arrives last
  };
  const Brought& brought(int worker, int position) const {
    const int fetch = fetch_at_[worker][position];
    return fetch < 0 ? nothing_ : fetches_[fetch].brought;
  }

  /// How long what a process has received was on its way.
  double transferred(int process) const { return transferred_[process]; }
  /// In the order in which they have set out.
  const std::vector<MessageSpan>& spans() const { return spans_; }

 private:
  struct State {
    double needed = kNever;  ///< when a worker that never waited would read it
    size_t missing = 0;      ///< tiles that are not written
    double ready = 0;        ///< when the others were
    double arrives = kNever;
    Cause made_by;  ///< what wrote the last tile
    int span = -1;  ///< once it has set out
  };
  using Urgency = std::tuple<double, int, int>;  ///< when needed, relayout, transfer
  using Readiness = std::pair<double, int>;
  /// Transfers that occupy the same ports.
  struct Lane {
    std::vector<int> ports;
    std::set<Urgency> ready;  ///< when the ports are free
    double since = 0;         ///< what is ready was then
    std::priority_queue<Readiness, std::vector<Readiness>, std::greater<>> later;
  };

  /// What other processes' messages bring; `latest` is when those arrive that have set out.
  struct Fetch {
    Brought brought;
    int coming = 0;  ///< messages that have not set out
    double latest = 0;
  };

  double next(const Lane& lane) const;
  void add_readers(int number);
  void find_needed(const Program& program, const InstrSeconds& seconds, bool backward);

  const std::vector<Transfer> transfers_;
  std::vector<State> states_;                           ///< by transfer
  std::vector<std::vector<std::vector<int>>> of_slot_;  ///< transfers by worker and slot
  std::vector<std::vector<int>> fetch_at_;              ///< by worker and position, or -1
  std::vector<Fetch> fetches_;
  const Brought nothing_;
  std::vector<Lane> lanes_;
  std::optional<double> next_;       ///< as long as it is known
  std::vector<int> lane_of_;         ///< by transfer
  std::vector<double> free_;         ///< by port
  std::vector<double> transferred_;  ///< by process
  std::vector<int> last_;            ///< by port the message that has occupied it
  const bool backward_;
  std::vector<MessageSpan> spans_;
};

}  // namespace smex
