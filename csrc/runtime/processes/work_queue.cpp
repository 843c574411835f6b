#include "runtime/processes/work_queue.h"

#include <c10/util/Exception.h>

namespace smex::runtime {

WorkQueue::WorkQueue()
    : state_(std::make_shared<State>()), thread_([state = state_] { run(state); }) {}

WorkQueue::~WorkQueue() {
  bool is_idle = false;
  {
    const std::lock_guard lock(state_->mutex);
    state_->closing = true;
    is_idle = state_->entries.empty();
  }
  state_->changed.notify_all();
  const bool is_own = thread_.get_id() == std::this_thread::get_id();  // of a last `on_over`
  is_idle && !is_own ? thread_.join() : thread_.detach();
}

void WorkQueue::push(c10::intrusive_ptr<c10d::Work> work, OnOver on_over) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->entries.push_back({std::move(work), std::move(on_over)});
  }
  state_->changed.notify_all();
}

void WorkQueue::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return !state->entries.empty() || state->closing; });
    if (state->entries.empty()) return;
    const Entry entry = state->entries.front();
    lock.unlock();
    std::string error;
    try {
      entry.work->wait();
    } catch (const c10::Error& found) {
      error = found.what_without_backtrace();
    } catch (const std::exception& found) {
      error = found.what();
    }
    entry.on_over(error);
    lock.lock();
    state->entries.pop_front();
  }
}

}  // namespace smex::runtime
