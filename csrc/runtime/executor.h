#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <array>
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "partition/lower/program.h"
#include "runtime/processes/communicator.h"
#include "runtime/steps.h"
#include "runtime/worker_pool.h"

namespace smex::runtime {

class Session;

/// What a host language adds; any may be empty.
struct Hooks {
  std::function<void()> check_interrupt;  ///< throws to stop a run; called by the calling thread
  std::function<std::shared_ptr<void>()> enter_thread;  ///< a scope for each worker thread
  /// A scope around joining the threads, which lets go of a lock that their own scopes' ends need.
  std::function<std::shared_ptr<void>()> leave_host;
  std::function<void(const std::exception_ptr&)> keep_exception;  ///< before it leaves its thread
};

class Executor;

struct ExecutorOptions {
  int threads_per_worker =
      0;  ///< intra-op threads; 0: the caller's, divided by the workers, at least 1
  std::vector<c10::Device> devices;  ///< one a worker; empty: the CPU for all
  Hooks hooks;
  /// Its threads are shared when it has as many workers; their runs take turns.
  std::shared_ptr<Executor> sibling;
  /// With them this process runs the workers `w` whose `ranks[w]` is its own, and other processes
  /// the others.
  std::shared_ptr<Communicator> communicator;
  std::vector<int> ranks;
  bool overlap = true;  ///< without it each fetch is waited for at once, whenever it is due
  /// Relayouts that go through collectives, of groups that the communicator has; the same for all.
  std::vector<Collective> collectives;
  /// By list the order in which messages between processes go, of all of them or none: one that
  /// `simulate` gives for this program and these ranks. The same for all. Only where all goes by
  /// messages: shared memory and collectives keep the order of relayouts, which might not fit.
  std::array<std::vector<Message>, 2> messages;
};

/// One tensor a worker; undefined where a worker holds none.
using WorkerTensors = std::vector<at::Tensor>;

/// Runs a Program on persistent threads, one per worker (the caller's own for the first), or those
/// workers that are this process's.
///
/// Workers wait for each other's slots on condition variables; instructions call the dispatcher
/// boxed, below autograd, with gradients and autocast off. Runs of one executor, and of those that
/// share its threads, are serialised, whichever sessions they belong to. A process forked after
/// construction cannot run (threads do not survive a fork): create the executor in the child.
class Executor : public std::enable_shared_from_this<Executor> {
 public:
  /// Throws InternalError when the program is not well formed, UserError for bad options.
  static std::shared_ptr<Executor> create(Program program, ExecutorOptions options);
  ~Executor();

  /// Begins a run. `inputs` has an entry for each of Program::inputs that the program does not
  /// bring along; an empty entry is set later with
  /// Session::set_input. `seed` replaces the seed of every random operator. `net` is of whom it is
  /// run: processes that run equal programs of different nets are found.
  /// Throws UserError that names the input when a tile is missing or has another shape.
  std::shared_ptr<Session> start(const std::vector<WorkerTensors>& inputs, int64_t seed = 0,
                                 uint64_t net = 0);

  void set_trace(bool on) { trace_ = on; }
  bool trace() const { return trace_; }
  int threads_per_worker() const { return threads_per_worker_; }
  /// The workers that run in this process.
  const std::vector<int>& workers() const { return workers_; }
  bool is_here(int worker) const { return processes_.is_here(worker); }
  /// Null where one process runs all workers.
  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }
  uint64_t digest() const { return digest_; }
  /// How the recorder calls an instruction, and a wait for another process.
  int32_t text(int worker, bool backward, size_t position) const {
    return texts_[backward][worker][position];
  }
  int32_t exchange_text() const { return exchange_text_; }

  const Program& program() const { return program_; }
  const Steps& steps() const { return steps_; }
  const Hooks& hooks() const { return hooks_; }
  c10::Device device(int worker) const { return devices_[worker]; }
  /// Where the caller's tiles of a worker are: its device, or the host where the program spills.
  c10::Device home(int worker) const {
    return program_.spills() ? c10::Device(c10::kCPU) : devices_[worker];
  }
  /// The worker's own stream; nullopt on the CPU and for a lone worker, which uses the caller's.
  const std::optional<c10::Stream>& stream(int worker) const { return streams_[worker]; }

 private:
  friend class Session;
  Executor(Program program, ExecutorOptions options);
  /// Runs `job(worker)` for each worker of this process, on its thread; see WorkerPool::run. With
  /// `alone` only the first one's, with the intra-op threads of all.
  void run(const std::function<void(int)>& job, const std::function<void()>& tick, bool alone);

  const Program program_;
  std::vector<c10::Device> devices_;
  std::shared_ptr<Communicator> communicator_;
  Processes processes_;
  std::vector<int> workers_;
  int threads_per_worker_ = 1;
  Hooks hooks_;
  Steps steps_;
  std::vector<WorkerTensors> contents_;  ///< of the inputs that the program brings along
  void make_contents();
  void name_steps();

  std::array<std::vector<std::vector<int32_t>>, 2> texts_;  ///< by list, worker and position
  int32_t exchange_text_ = 0;
  uint64_t digest_ = 0;  ///< of the program, where other processes run it too
  std::vector<std::optional<c10::Stream>> streams_;
  std::atomic<bool> trace_{false};
  /// What threads saved in the last run of the forward [0] and backward [1] list; see Session::run.
  std::array<std::atomic<double>, 2> shared_us_{kUnknown, kUnknown};
  static constexpr double kUnknown = 1e9;
  class Threads;
  std::shared_ptr<Threads> threads_;
};

}  // namespace smex::runtime
