#include "runtime/executor.h"

#include <ATen/Parallel.h>
#include <ATen/ops/tensor.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <unistd.h>

#include <algorithm>

#include "ir/error.h"
#include "partition/lower/exchange.h"
#include "partition/lower/overlap.h"
#include "runtime/session.h"
#include "runtime/threads.h"

namespace smex::runtime {
namespace {

std::vector<c10::Device> resolve_devices(std::vector<c10::Device> devices, int num_workers) {
  if (devices.empty()) devices.assign(num_workers, c10::Device(c10::kCPU));
  if (devices.size() == static_cast<size_t>(num_workers)) {
    for (c10::Device& device : devices) {
      if (device.is_cpu() || device.has_index()) continue;  // tensors name theirs with an index
      device = c10::impl::VirtualGuardImpl(device.type()).getDevice();
    }
    return devices;
  }
  throw UserError(c10::str("devices: expected one for each of the ", num_workers,
                           " workers, found ", devices.size()));
}

int resolve_threads(int requested, int num_workers) {
  if (requested < 0) {
    throw UserError(c10::str("threads_per_worker must be positive, found ", requested));
  }
  return requested > 0 ? requested : std::max(1, at::get_num_threads() / num_workers);
}

Processes processes_of(const ExecutorOptions& options, const std::vector<c10::Device>& devices) {
  if (!options.communicator) return {};
  const Communicator& communicator = *options.communicator;
  if (options.ranks.size() != devices.size()) {
    throw UserError(c10::str("ranks: expected one for each of the ", devices.size(),
                             " workers, found ", options.ranks.size()));
  }
  for (const int rank : options.ranks) {
    if (rank < 0 || rank >= communicator.size()) {
      throw UserError(c10::str("ranks: there are ", communicator.size(), ", found ", rank));
    }
  }
  for (const Collective& collective : options.collectives) {
    for (const std::vector<int>& group : collective.groups) communicator.check_group(group);
  }
  Processes processes;
  processes.rank = communicator.rank();
  processes.ranks = options.ranks;
  processes.hosts = communicator.hosts();
  processes.collectives = options.collectives;
  processes.messages = options.messages;
  if (!devices[0].is_cpu()) processes.packet_bytes = 32 << 20;  // each starts a kernel
  return processes;
}

std::vector<int> workers_here(const Processes& processes, int num_workers) {
  std::vector<int> workers;
  for (int w = 0; w < num_workers; ++w) {
    if (processes.is_here(w)) workers.push_back(w);
  }
  if (workers.empty()) {
    throw UserError(c10::str("ranks: none of the workers is of rank ", processes.rank));
  }
  return workers;
}

}  // namespace

/// The threads that executors run on, one run at a time; the caller's own for the first worker.
class Executor::Threads {
 public:
  Threads(int num_workers, int threads_per_worker, Hooks hooks)
      : threads_per_worker_(threads_per_worker), hooks_(std::move(hooks)), process_(getpid()) {
    if (num_workers == 1) return;
    struct Scope {
      explicit Scope(int num_threads) : threads(num_threads) {}
      ScopedIntraOpThreads threads;
      std::shared_ptr<void> host;
    };
    const auto enter = [this](int) -> std::shared_ptr<void> {
      auto scope = std::make_shared<Scope>(threads_per_worker_);
      if (hooks_.enter_thread) scope->host = hooks_.enter_thread();
      return scope;
    };
    pool_ = std::make_unique<WorkerPool>(num_workers, enter);
  }

  ~Threads() {
    // After a fork the child has no such threads: joining them, or destroying what they wait on,
    // hangs.
    if (getpid() != process_) {
      static_cast<void>(pool_.release());
      return;
    }
    const std::shared_ptr<void> scope = pool_ && hooks_.leave_host ? hooks_.leave_host() : nullptr;
    pool_.reset();
  }

  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  void run(const std::function<void(int)>& job, const std::function<void()>& tick, bool alone) {
    if (getpid() != process_) {
      throw UserError(
          "this executor was created before the process forked, and its threads are gone; "
          "create it in the child");
    }
    const std::lock_guard lock(mutex_);
    const bool all = pool_ && alone;
    const ScopedIntraOpThreads threads(all ? std::max(threads_per_worker_, at::get_num_threads())
                                           : threads_per_worker_);
    if (pool_ && !alone) {
      pool_->run(job, tick);
    } else {
      job(0);
    }
  }

 private:
  const int threads_per_worker_;
  const Hooks hooks_;
  const int64_t process_;
  std::mutex mutex_;
  std::unique_ptr<WorkerPool> pool_;  ///< null for one worker
};

std::shared_ptr<Executor> Executor::create(Program program, ExecutorOptions options) {
  if (!options.overlap) wait_at_once(program);
  if (program.spills() && options.communicator) {
    throw UserError("device_memory: is of workers that one process runs");
  }
  return std::shared_ptr<Executor>(new Executor(std::move(program), std::move(options)));
}

Executor::Executor(Program program, ExecutorOptions options)
    : program_(std::move(program)),
      devices_(resolve_devices(std::move(options.devices), program_.num_workers)),
      communicator_(options.communicator),
      processes_(processes_of(options, devices_)),
      workers_(workers_here(processes_, program_.num_workers)),
      threads_per_worker_(
          resolve_threads(options.threads_per_worker, static_cast<int>(workers_.size()))),
      hooks_(std::move(options.hooks)),
      steps_(prepare_steps(program_, devices_, processes_)),
      digest_(communicator_ ? smex::digest(program_) : 0),
      streams_(program_.num_workers) {
  if (communicator_) name_steps();
  make_contents();
  const auto num_here = static_cast<int>(workers_.size());
  const bool shared = options.sibling && options.sibling->workers_.size() == workers_.size() &&
                      options.sibling->threads_per_worker_ == threads_per_worker_;
  threads_ = shared ? options.sibling->threads_
                    : std::make_shared<Threads>(num_here, threads_per_worker_, hooks_);
  if (program_.num_workers == 1) return;
  for (const int w : workers_) {
    if (devices_[w].is_cpu()) continue;
    streams_[w] =
        c10::impl::VirtualGuardImpl(devices_[w].type()).getStreamFromGlobalPool(devices_[w]);
  }
}

Executor::~Executor() = default;

void Executor::make_contents() {
  for (const Binding& binding : program_.inputs) {
    if (binding.contents.empty()) continue;
    WorkerTensors& tiles = contents_.emplace_back(program_.num_workers);
    for (const int w : workers_) {
      if (!binding.contents[w]) continue;
      const int itemsize = program_.workers[w].slot_itemsizes.at(binding.slots[w]);
      const at::Tensor wide =
          at::tensor(*binding.contents[w], at::kLong).view(binding.regions[w].shape());
      tiles[w] = wide.to(home(w), itemsize == 4 ? at::kInt : at::kLong);
    }
  }
}

void Executor::name_steps() {
  Recorder& recorder = communicator_->recorder();
  exchange_text_ = recorder.text("awaits a packet");
  for (const bool backward : {false, true}) {
    texts_[backward].resize(steps_.workers.size());
    for (const int worker : workers_) {
      const WorkerSteps& steps = steps_.workers[worker];
      for (const Step& step : backward ? steps.backward : steps.forward) {
        texts_[backward][worker].push_back(recorder.text(describe(program_, worker, step)));
      }
    }
  }
}

std::shared_ptr<Session> Executor::start(const std::vector<WorkerTensors>& inputs, int64_t seed,
                                         uint64_t net) {
  auto session = std::make_shared<Session>(shared_from_this(), seed, net);
  const size_t given = program_.inputs.size() - contents_.size();
  if (inputs.size() != given) {
    throw UserError(c10::str("start: expected ", given, " inputs, found ", inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].empty()) session->set_input(static_cast<int>(i), inputs[i]);
  }
  for (size_t i = 0; i < contents_.size(); ++i) {
    session->set_input(static_cast<int>(given + i), contents_[i]);
  }
  return session;
}

void Executor::run(const std::function<void(int)>& job, const std::function<void()>& tick,
                   bool alone) {
  threads_->run([&](int thread) { job(workers_[thread]); }, tick, alone);
}

}  // namespace smex::runtime
