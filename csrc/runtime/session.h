#pragma once

#include <ATen/core/stack.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/executor.h"
#include "runtime/host_tiles.h"
#include "runtime/memory_counter.h"
#include "runtime/processes/doorbell.h"
#include "runtime/remote_tiles.h"

namespace smex::runtime {

struct TraceEvent {
  int worker = 0;
  std::string name;
  std::string category;  ///< "compute", "wait" or the fetch's kind
  double start_us = 0;   ///< since the session's start
  double duration_us = 0;
  int64_t bytes = 0;       ///< moved from other workers
  Slot fetched = kNoSlot;  ///< by a fetch
  double since_us = 0;     ///< when that has begun: other instructions ran until `start_us`
  OpId op = -1;            ///< of a call that is one of the graph's
  /// That a processor of the host was busy with it, other threads' turns left out; the duration
  /// where several threads or another device compute it.
  double processor_us = 0;
};

/// What a session measured so far. Vectors have one entry per worker.
struct Stats {
  std::map<std::string, int64_t> moved_bytes;  ///< by kind of fetch, between workers
  /// By "spill" and "restore", between the devices and the host; none where tiles are never there.
  std::map<std::string, int64_t> spilled_bytes;
  std::vector<int64_t> received_bytes;
  std::vector<int64_t> live_bytes;  ///< each distinct storage held by a slot, once; inputs included
  std::vector<int64_t> peak_bytes;
  std::vector<double> compute_seconds, fetch_seconds, wait_seconds;
  /// By operator and by kind of fetch, all workers together. The host's time: a device may go on.
  std::map<std::string, double> seconds_by_target;
  double forward_seconds = 0;
  double backward_seconds = 0;
};

/// One forward run, and at most one backward run, of an executor's program, with the tensors it
/// keeps.
///
/// Slots go when their FreeInstr has run and every remote reader is done; outputs, and whatever was
/// not freed, when the session dies. Sessions of one executor are independent; each may be used by
/// one thread at a time.
class Session {
 public:
  /// Use Executor::start.
  Session(std::shared_ptr<Executor> executor, int64_t seed, uint64_t net);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Gives input `index` its tiles, one per worker that holds one; others are ignored. Gradients do
  /// not flow back through them. Throws UserError when a tile is missing, was set before, or has
  /// not the binding's shape or the worker's device.
  void set_input(int index, const WorkerTensors& tiles);
  /// Runs every worker's forward list; once. Rethrows the first exception that a worker met, of its
  /// own type, with the instruction in the text. The session cannot run on afterwards; its executor
  /// can.
  void run_forward();
  /// Runs the backward list; once, after run_forward.
  void run_backward();
  /// The tiles of output `index`. Throws UserError before they are computed.
  WorkerTensors outputs(int index) const;
  /// The same, given away: the session drops the tiles whose memory nothing else in it uses, so
  /// that the receiver may keep them without a copy.
  WorkerTensors take_outputs(int index);

  Stats stats() const;
  /// By worker, list and instruction the seconds that it took, without waiting; of what has run.
  std::vector<std::array<std::vector<double>, 2>> instr_seconds() const;
  /// Events of the runs that were traced (Executor::set_trace), by worker and then by time.
  std::vector<TraceEvent> trace_events() const;

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage { kNew, kForwardDone, kBackwardDone, kFailed };

  /// A fetch that has begun, or a view of what one brings.
  struct OpenStep {
    const FetchStep* fetch = nullptr;
    const Step* step = nullptr;
    size_t position = 0;  ///< in its list
    bool beside = false;  ///< other instructions run meanwhile
    uint64_t ticket = 0;  ///< of the recorder
    double begin_us = 0, resumed_us = 0, busy_us = 0;
    size_t next_read = 0, next_copy = 0;
    at::Tensor result;
  };

  /// One worker's half of the session. Other workers touch slots, memory and the waiting members
  /// only.
  struct Worker {
    std::unique_ptr<SlotState[]> slots;
    MemoryCounter memory;
    /// Its twin (WorkerSteps::twin) has the same tiles, runs, and holds what both make.
    bool follows = false;
    bool has_run = false;  ///< its forward list
    torch::jit::Stack stack;
    std::optional<HostTiles> host;      ///< where tiles may be on the host
    int64_t spilled = 0, restored = 0;  ///< bytes
    std::vector<int64_t> moved_bytes;   ///< by Steps::kinds
    std::vector<TraceEvent> events;
    double wait_us = 0;
    /// Of each step of the forward [0] and backward [1] list, without what it waited for peers.
    std::array<std::vector<double>, 2> step_us;
    std::vector<OpenStep> open;  ///< that are not due yet, in the order in which they began
    std::unordered_map<Slot, at::Tensor> begun;  ///< tiles that fetches are still to complete
    // Peers that wait for this worker's slots.
    std::mutex mutex;
    std::condition_variable published;
    std::atomic<int> waiters{0};
    std::atomic<bool> finished{true};
    // What this worker waits for, as (episode, owner, slot); see check_deadlock. An episode is over
    // when the wait is, or when a fetch has gone on meanwhile.
    std::atomic<int64_t> episode{0};
    std::atomic<int> awaited_worker{-1};
    std::atomic<Slot> awaited_slot{kNoSlot};
  };

  /// A picture of who waits for whom, to compare with the next one.
  struct Standstill {
    bool blocked = false;
    std::vector<int64_t> episodes;
  };

  struct Stopped {};  ///< thrown inside a worker to leave its list; never leaves the session

  void run(bool backward);
  /// Finds the workers that need not run, as a twin does, and tells whether one alone has to.
  bool find_followers(bool backward);
  bool has_tiles_of_twin(int worker) const;
  /// The worker whose slots hold what `worker` has made.
  int holder(size_t worker) const;
  void tick();
  void run_worker(int worker, bool backward);
  /// All workers on the calling thread, each until it would have to wait for another.
  void run_in_turns(bool backward);
  /// Runs steps from `next` on; stops early where one would wait, if that is not `waiting`, with
  /// fetches that are due open. False: the run is over, as there was an error.
  bool run_steps(int worker, const std::vector<Step>& steps, std::vector<double>& step_us,
                 size_t& next, bool waiting);
  bool would_wait(int worker, const Step& step) const;
  void finish(int worker);
  /// The microseconds that threads of their own would save: all workers' but the longest's.
  double shared_us(bool backward) const;
  std::string waiting_text() const;
  bool is_remote() const { return remote_ && remote_->are_open(); }
  void end_remote();
  void await_packet(int worker, const Copy& copy);
  at::Tensor source_of(int worker, const Copy& copy, const at::Tensor& result);
  double run_step(int worker, const Step& step);
  void run_compute(int worker, const ComputeStep& step);
  void run_fetch(int worker, const FetchStep& step);
  /// Returns the bytes that it has copied.
  int64_t run_move(int worker, const MoveStep& step);
  // Steps that are not due yet, and go on while others run.
  void open_step(int worker, const Step& step, size_t position);
  /// Goes on with what has come for open steps, and finishes those for which all has.
  void advance_open(int worker);
  /// Finishes those that are due before the step `next`; false: one would wait, and `waiting` is
  /// not asked for.
  bool finish_due(int worker, size_t next, bool waiting);
  /// Whether an open step has finished; with `waiting` it has.
  bool try_finish(int worker, OpenStep& open, bool waiting);
  /// Copies what has come of a fetch, or with `waiting` all; tells whether that was all.
  bool copy_parts(int worker, OpenStep& open, bool waiting);
  void finish_fetch(int worker, OpenStep& open);
  bool is_readable(const RemoteRead& read) const;
  bool is_here(int worker, const Copy& copy) const;
  /// Sleeps until `is_over`, and goes on with open fetches meanwhile.
  template <typename Condition>
  void await_with_open(int worker, const Condition& is_over);
  Doorbell& bell() { return is_remote() ? executor_->communicator()->doorbell() : bell_; }
  /// Calls an operator whose result lies inside of a tile, which it makes.
  void call_inside(int worker, const ComputeStep& step);
  void store_outputs(int worker, const ComputeStep& step, const SlotState* viewed);
  static bool is_bookkeeping(const ComputeStep& step, size_t output);
  void check_shape(const ComputeStep& step, size_t output, const at::Tensor& tensor) const;

  const at::Tensor& operand(int worker, Slot slot) const;
  /// A tile where it is, on the device or else on the host.
  const at::Tensor& anywhere(int worker, Slot slot) const;
  /// A tile as the caller and other workers see it: where tiles may be on the host, there.
  const at::Tensor& seen(int worker, Slot slot) const;
  const at::Tensor& await_slot(int reader, int owner, Slot slot);
  enum class Counted { kAsOwn, kAsBorrowed, kAlready };
  void store(int worker, Slot slot, at::Tensor tensor, Counted counted = Counted::kAsOwn);
  /// Keeps a view of what is on the host.
  void store_on_host(int worker, Slot slot, at::Tensor tensor, const SlotState& viewed);
  void publish(int worker, Slot slot, const std::optional<c10::Stream>& stream);
  void release(int worker, Slot slot);

  void fail(int worker, size_t position, const Step& step);
  void record_failure(std::exception_ptr error);
  void stop();
  void wake_waiters(Worker& worker);
  void check_interrupt();
  void check_deadlock();

  void before_streams();
  void after_streams();
  double elapsed_us() const;

  std::shared_ptr<Executor> executor_;
  const int64_t seed_;
  const Clock::time_point started_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Stage stage_ = Stage::kNew;
  bool tracing_ = false;
  bool in_backward_ = false;
  std::unique_ptr<RemoteTiles> remote_;  ///< where other processes run workers
  std::string failed_where_;             ///< the first instruction that failed
  double forward_seconds_ = 0, backward_seconds_ = 0;
  Doorbell bell_;  ///< of one process, for workers that wait with fetches open
  std::atomic<int> bell_waiters_{0};
  std::atomic<bool> stopping_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;
  Clock::time_point last_check_;
  Standstill standstill_;
};

}  // namespace smex::runtime
