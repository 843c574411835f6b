#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace smex::runtime {

/// Persistent threads, one per worker but the first, which runs on the caller's. They sleep between
/// jobs that do not follow at once.
class WorkerPool {
 public:
  /// `enter` runs first on each thread; what it returns lives as long as the thread.
  /// Throws UserError where the system starts no further thread; none is left then.
  WorkerPool(int num_workers, std::function<std::shared_ptr<void>(int)> enter);
  /// Joins the threads.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Runs `job(worker)` for every worker, the first one's on the calling thread, and waits for all.
  /// `job` must not throw. While waiting for the others, the caller runs `tick` every 100 ms; when
  /// it throws, `tick` is not called again, and its exception is rethrown once every job has
  /// returned. One caller at a time.
  void run(const std::function<void(int)>& job, const std::function<void()>& tick);

 private:
  void loop(int worker);
  void join();

  std::function<std::shared_ptr<void>(int)> enter_;
  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  const std::function<void(int)>* job_ = nullptr;
  std::atomic<int64_t> generation_{0};
  std::atomic<int> pending_{0};
  std::atomic<bool> closing_{false};
  const bool spins_;
  std::vector<std::thread> threads_;
};

}  // namespace smex::runtime
