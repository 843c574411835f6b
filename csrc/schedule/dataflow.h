// Operators on like devices, first come first served, and where to place them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace smex::schedule {

/// Operators that read each other's results: what DOPPLER's simulator places (Yao et al., ICLR
/// 2026).
struct Dataflow {
  int32_t devices = 1;
  std::vector<double> compute;   ///< seconds of each operator, on any device
  std::vector<double> transfer;  ///< seconds to move an operator's result to another device
  std::vector<std::pair<int32_t, int32_t>>
      edges;  ///< from an operator to one that reads its result

  int32_t size() const { return static_cast<int32_t>(compute.size()); }
};

/// Throws UserError unless numbers are those of operators, times are finite and not negative, and
/// no operator waits for itself.
void check(const Dataflow& graph);

/// Runs placements in time. An operator is ready when the results that it reads are on its device;
/// a device does those that are ready one after the other, first come, first served; when one ends
/// its result is on its way to each reader at once, links being as many as are needed. What happens
/// at the same time does so in the order in which it was caused, event by event, as in SimPy.
class DataflowRun {
 public:
  /// `graph` is checked, and outlives this.
  explicit DataflowRun(const Dataflow& graph);

  /// When the last result has arrived, with the device of each operator.
  double makespan(std::span<const int32_t> placement);

 private:
  enum class Kind : uint8_t { kReady, kGranted, kComputed, kReleased, kFinished, kSent, kArrived };
  struct Event {
    Kind kind;
    int32_t item;  // an operator, or of kReleased a device
  };
  struct Later {
    double at;
    int64_t number;
    Event event;

    bool operator>(const Later& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };

  void post(double delay, Kind kind, int32_t item);
  void serve(int32_t device);
  void happen(const Event& event, std::span<const int32_t> placement);

  const Dataflow& graph_;
  std::vector<int64_t> after_begin_;
  std::vector<int32_t> after_;
  std::vector<int32_t> num_before_, missing_;
  std::vector<std::vector<int32_t>> queues_;  // of devices
  std::vector<size_t> heads_;
  std::vector<bool> busy_;
  std::vector<Event> now_events_;  // in the order in which they happen
  std::vector<Later> later_;       // a heap
  double now_ = 0;
  int64_t posted_ = 0;
};

/// Of one placement; throws UserError unless it has a device for each operator.
double makespan_of(const Dataflow& graph, std::span<const int32_t> placement);

struct Placement {
  std::vector<int32_t> devices;  ///< of each operator
  double makespan = 0;
  int64_t calls = 0;  ///< of the simulator
};

/// Simulated annealing from a placement: an operator goes to another device, most often to that of
/// one that it reads or that reads it, alone or with those around it, or two change places. Goes
/// from the best one again when it gets cold. The same for the same seed. `progress`, given the
/// calls and the best makespan from time to time, ends it with false.
Placement anneal(const Dataflow& graph, std::vector<int32_t> start, int64_t calls, uint64_t seed,
                 const std::function<bool(int64_t, double)>& progress = {});

}  // namespace smex::schedule
