#include "runtime/worker_pool.h"

#include <chrono>
#include <string>
#include <system_error>

#include "ir/error.h"
#include "runtime/spin.h"

namespace smex::runtime {
namespace {
constexpr std::chrono::milliseconds kTick{100};
}

WorkerPool::WorkerPool(int num_workers, std::function<std::shared_ptr<void>(int)> enter)
    : enter_(std::move(enter)), pending_(num_workers - 1), spins_(have_cores(num_workers)) {
  threads_.reserve(num_workers - 1);
  try {
    for (int w = 1; w < num_workers; ++w) threads_.emplace_back([this, w] { loop(w); });
  } catch (const std::system_error& error) {
    join();
    throw UserError("partition: the system started only " + std::to_string(threads_.size()) +
                    " of the " + std::to_string(num_workers - 1) + " workers' threads (" +
                    error.code().message() +
                    "); take fewer workers, or raise the limits on processes and memory "
                    "(ulimit -u, ulimit -v)");
  }
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return pending_ == 0; });
}

WorkerPool::~WorkerPool() { join(); }

void WorkerPool::join() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  start_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void WorkerPool::run(const std::function<void(int)>& job, const std::function<void()>& tick) {
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    pending_ = static_cast<int>(threads_.size());
    ++generation_;
  }
  start_.notify_all();
  job(0);
  const auto is_done = [&] { return pending_ == 0; };
  std::exception_ptr error;
  if (spins_) spin_until(is_done);
  std::unique_lock lock(mutex_);
  while (!done_.wait_for(lock, kTick, is_done)) {
    if (error) continue;
    lock.unlock();
    try {
      tick();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
  }
  job_ = nullptr;
  lock.unlock();
  if (error) std::rethrow_exception(error);
}

void WorkerPool::loop(int worker) {
  const std::shared_ptr<void> scope = enter_ ? enter_(worker) : nullptr;
  int64_t seen = 0;
  const auto is_wanted = [&] { return closing_ || generation_ != seen; };
  std::unique_lock lock(mutex_);
  while (true) {
    if (--pending_ == 0) done_.notify_all();
    if (spins_ && seen != 0) {  // a backward pass follows soon
      lock.unlock();
      spin_until(is_wanted);
      lock.lock();
    }
    start_.wait(lock, is_wanted);
    if (closing_) return;
    seen = generation_;
    const auto* job = job_;
    lock.unlock();
    (*job)(worker);
    lock.lock();
  }
}

}  // namespace smex::runtime
